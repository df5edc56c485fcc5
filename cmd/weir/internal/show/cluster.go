package show

import (
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
)

// Cluster is the control plane's status.
type Cluster struct {
	Cluster          string   `json:"cluster"`
	Leader           string   `json:"leader"`
	LeaderAddress    string   `json:"leader_address"`
	Term             uint64   `json:"term"`
	Generation       uint64   `json:"generation"`
	Level            uint32   `json:"level"`
	Index            uint64   `json:"index"`
	LogTimeMS        uint64   `json:"log_time_ms"`
	Server           string   `json:"server"`
	Stale            bool     `json:"stale"`
	AgeMS            uint64   `json:"age_ms"`
	Dispatchers      uint64   `json:"dispatchers"`
	RunningOperators uint32   `json:"running_operators"`
	Nodes            uint32   `json:"nodes"`
	Members          []Member `json:"members"`
	// CommonIndex is the log index at which the members' state hashes were compared; 0: they were not.
	CommonIndex uint64 `json:"common_index"`
	HashesEqual bool   `json:"hashes_equal"`
}

// Member is a server of the cluster.
type Member struct {
	ID           string `json:"id"`
	Address      string `json:"address"`
	RaftAddress  string `json:"raft_address"`
	Voter        bool   `json:"voter"`
	HighestLevel uint32 `json:"highest_level"`
	Reachable    bool   `json:"reachable"`
	Role         string `json:"role"`
	AppliedIndex uint64 `json:"applied_index"`
	Hash         string `json:"hash"`
	InContact    bool   `json:"in_contact"`
	Error        string `json:"error"`
}

// ClusterRow reads the cluster's status.
func ClusterRow(s *weirv1.GetStatusResponse) Cluster {
	h := s.GetHeader()
	c := Cluster{
		Cluster: s.GetCluster(), Leader: s.GetLeader(), LeaderAddress: s.GetLeaderAddress(), Term: s.GetTerm(),
		Generation: s.GetGeneration(), Level: s.GetLevel(), Index: h.GetIndex(), LogTimeMS: h.GetLogTimeMs(),
		Server: h.GetServer(), Stale: h.GetStale(), AgeMS: h.GetAgeMs(), Dispatchers: s.GetDispatchers(),
		RunningOperators: s.GetRunningOperators(), Nodes: s.GetNodes(), CommonIndex: s.GetCommonIndex(),
		HashesEqual: s.GetHashesEqual(), Members: []Member{},
	}
	for _, m := range s.GetMembers() {
		row := Member{
			ID: m.GetId(), Address: m.GetAddress(), RaftAddress: m.GetRaftAddress(), Voter: m.GetVoter(),
			HighestLevel: m.GetHighestLevel(), Reachable: m.GetReachable(), Role: Word(m.GetRole().String(), "ROLE_"),
			AppliedIndex: m.GetAppliedIndex(), InContact: m.GetInContact(), Error: m.GetError(),
		}
		if d := m.GetHash(); d != nil {
			row.Hash = fmt.Sprintf("%016x%016x", d.GetA(), d.GetB())
		}
		c.Members = append(c.Members, row)
	}
	return c
}

// Differ says that members told different state hashes for the same log index.
func (c *Cluster) Differ() bool { return c.CommonIndex != 0 && !c.HashesEqual }
