package wal2json

import (
	"errors"
	"io"
	"testing"

	"github.com/weir-project/weir/dispatcher"
)

// BenchmarkShopLog reads the whole log for one table; its lines are what a dispatcher pays for, wanted or not.
func BenchmarkShopLog(b *testing.B) {
	source, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	const lines = 43_996
	for b.Loop() {
		r, err := source.Open(b.Context(), dispatcher.SourceSpec{URI: "wal2json:" + shopLog, Table: dispatcher.TableName{Name: "pgbench_tellers"}})
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = r.Next(b.Context())
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
}
