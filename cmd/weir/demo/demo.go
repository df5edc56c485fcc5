// Package demo holds a real change log and the contents of its upstream's tables at the end.
//
// The log was captured from PostgreSQL by logical decoding (wal2json, format version 2) while pgbench's TPC-B script and
// a small order script ran. It begins after the accounts had been loaded; the final tables hold the accounts that it
// touches. Columns that are only padding are left out of the final tables.
package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed" // the data is part of the binary
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

//go:embed shop.wal2json.ndjson.gz
var shopLog []byte

//go:embed shop.final.tar.gz
var shopFinal []byte

// Log unpacks the change log.
func Log() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(shopLog))
	if err != nil {
		return nil, fmt.Errorf("unpack change log: %w", err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("unpack change log: %w", err)
	}
	return raw, nil
}

// maxTable bounds a final table, in bytes.
const maxTable = 16 << 20

// Final unpacks the final tables: CSV with a header line, by table name.
func Final() (map[string][]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(shopFinal))
	if err != nil {
		return nil, fmt.Errorf("unpack final tables: %w", err)
	}
	tables := map[string][]byte{}
	for files := tar.NewReader(z); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return tables, nil
		}
		if err != nil {
			return nil, fmt.Errorf("unpack final tables: %w", err)
		}
		name, isTable := strings.CutSuffix(path.Base(head.Name), ".csv")
		if !isTable {
			continue
		}
		raw, err := io.ReadAll(io.LimitReader(files, maxTable))
		if err != nil {
			return nil, fmt.Errorf("unpack final table %s: %w", name, err)
		}
		tables[name] = raw
	}
}
