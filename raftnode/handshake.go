package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"

	"github.com/weir-project/weir/fsm"
)

// The first bytes of a connection between servers:
//
//	caller:  "WEIR" | version 1 | field cluster | field server | field folder
//	callee:  "WEIR" | version 1 | field cluster | field server | field folder | field refusal (empty: welcome)
//	field:   length (1 byte) | bytes
//
// After a welcome Raft's own protocol follows.
const (
	helloMagic    = "WEIR"
	helloVersion  = 1
	maxHelloField = 255
)

// hello is what a server says of itself.
type hello struct {
	Cluster string // empty while it is not known
	Server  fsm.ServerID
	// Folder is the random id of the data folder.
	Folder string
}

func appendField(b []byte, s string) []byte {
	s = s[:min(len(s), maxHelloField)]
	return append(append(b, byte(len(s))), s...)
}

func appendHello(h hello) []byte {
	b := append([]byte(helloMagic), helloVersion)
	b = appendField(b, h.Cluster)
	b = appendField(b, string(h.Server))
	return appendField(b, h.Folder)
}

func writeHello(w io.Writer, h hello) error {
	_, err := w.Write(appendHello(h))
	return err
}

func writeAnswer(w io.Writer, h hello, refusal error) error {
	text := ""
	if refusal != nil {
		text = refusal.Error()
	}
	_, err := w.Write(appendField(appendHello(h), text))
	return err
}

func readHello(r io.Reader) (hello, error) {
	var head [len(helloMagic) + 1]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return hello{}, fmt.Errorf("read the handshake: %w", err)
	}
	if !bytes.Equal(head[:len(helloMagic)], []byte(helloMagic)) {
		return hello{}, errors.New("read the handshake: the other side is no weir server")
	}
	if v := head[len(helloMagic)]; v != helloVersion {
		return hello{}, fmt.Errorf("read the handshake: the other side speaks version %d and this server version %d", v, helloVersion)
	}
	var fields [3]string
	for i := range fields {
		var err error
		if fields[i], err = readField(r); err != nil {
			return hello{}, err
		}
	}
	return hello{Cluster: fields[0], Server: fsm.ServerID(fields[1]), Folder: fields[2]}, nil
}

func readField(r io.Reader) (string, error) {
	var length [1]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", fmt.Errorf("read the handshake: %w", err)
	}
	text := make([]byte, length[0])
	if _, err := io.ReadFull(r, text); err != nil {
		return "", fmt.Errorf("read the handshake: %w", err)
	}
	return string(text), nil
}

func readAnswer(r io.Reader) (hello, error) {
	h, err := readHello(r)
	if err != nil {
		return hello{}, err
	}
	refusal, err := readField(r)
	if err != nil {
		return hello{}, err
	}
	if refusal != "" {
		return hello{}, fmt.Errorf("it refused: %s", refusal)
	}
	return h, nil
}

// registry is the identity of this server in use: what it says of itself, and whom it knows.
type registry struct {
	dir string

	mu sync.Mutex
	id identity
}

func (g *registry) self() hello {
	g.mu.Lock()
	defer g.mu.Unlock()
	return hello{Cluster: g.id.Cluster, Server: g.id.Server, Folder: g.id.Folder}
}

// meet refuses servers of other clusters, servers that are not who was dialled, and servers that came back under their
// old id with another data folder: they have forgotten what they voted for and acknowledged.
func (g *registry) meet(other hello, expect fsm.ServerID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case other.Cluster != "" && g.id.Cluster != "" && other.Cluster != g.id.Cluster:
		return fmt.Errorf("server %s is of cluster %s and server %s of cluster %s", other.Server, other.Cluster, g.id.Server, g.id.Cluster)
	case other.Server == "" || other.Folder == "":
		return errors.New("the other server does not say who it is")
	case expect != "" && other.Server != expect:
		return fmt.Errorf("the address belongs to server %s, not to %s", other.Server, expect)
	case other.Server == g.id.Server:
		return fmt.Errorf("the other server has this server's id %s", g.id.Server)
	}
	known, met := g.id.Peers[other.Server]
	if met && known != other.Folder {
		return fmt.Errorf("server %s has lost the data folder that it had: it must not vote under its old id, add it anew under another", other.Server)
	}
	if met {
		return nil
	}
	return g.remember(func(id *identity) { id.Peers[other.Server] = other.Folder })
}

// joined notes the cluster that the log names.
func (g *registry) joined(cluster string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.id.Cluster == cluster {
		return nil
	}
	return g.remember(func(id *identity) { id.Cluster = cluster })
}

// remember changes the identity on disk first. Requires g.mu.
func (g *registry) remember(change func(*identity)) error {
	next := g.id
	next.Peers = make(map[fsm.ServerID]string, len(g.id.Peers)+1)
	maps.Copy(next.Peers, g.id.Peers)
	change(&next)
	if g.dir != "" {
		if err := writeIdentity(g.dir, next); err != nil {
			return err
		}
	}
	g.id = next
	return nil
}

func (g *registry) begun() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.id.Begun
}

// begin notes that the folder holds a log. It also writes what the configuration added to the identity.
func (g *registry) begin() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.remember(func(id *identity) { id.Begun = true })
}
