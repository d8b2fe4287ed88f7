package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// status is the part of GET /v1/status of a node's operations listener that the harness uses.
type status struct {
	Replication int           `json:"replication"`
	Placer      string        `json:"placer"`
	Shards      []shardStatus `json:"shards"`
	Level       uint32        `json:"feature_level"`
	Nodes       []struct {
		Name  string `json:"name"`
		State string `json:"state"`
		Level uint32 `json:"feature_level"`
	} `json:"nodes"`
}

type shardStatus struct {
	Shard  uint32   `json:"shard"`
	Owner  string   `json:"owner"`
	Voters []string `json:"voters"`
	Bytes  uint64   `json:"bytes"`
	Lags   []struct {
		Node    string `json:"node"`
		Entries uint64 `json:"entries"`
		Active  bool   `json:"active"`
	} `json:"lags"`
}

func fetchStatus(ctx context.Context, ops string) (*status, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ops+"/v1/status", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask for status: %w", err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask for status: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end or given up
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status is answered %d", response.StatusCode)
	}
	s := &status{}
	if err := json.NewDecoder(io.LimitReader(response.Body, 16<<20)).Decode(s); err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	return s, nil
}

// newestLevel is the newest feature level that every node has.
func (s *status) newestLevel() uint32 {
	newest := ^uint32(0)
	for _, n := range s.Nodes {
		newest = min(newest, n.Level)
	}
	return newest
}

// unsettled returns what is missing for a settled cluster of the given nodes: all shards are replicated, and the placement
// loop is done with spreading their owners. "" = settled.
func (s *status) unsettled(alive []string) string {
	if missing := s.unreplicated(alive); missing != "" {
		return missing
	}
	least, most := s.share(alive)
	if most-least > 1 {
		return fmt.Sprintf("owners are not spread: a node has %d shards, another %d", most, least)
	}
	return ""
}

// unreplicated returns what is missing until every shard has an owner and as many voters as possible, all alive and
// close behind; then any node may stop.
func (s *status) unreplicated(alive []string) string {
	const closeBehind = 1000 // entries: it takes part, even under load
	voters := min(s.Replication, len(alive))
	if voters%2 == 0 {
		voters--
	}
	if len(s.Shards) == 0 {
		return "no shard is known"
	}
	for _, shard := range s.Shards {
		if shard.Owner == "" || !slices.Contains(alive, shard.Owner) {
			return fmt.Sprintf("shard %d has no living owner (%q)", shard.Shard, shard.Owner)
		}
		living := 0
		for _, name := range shard.Voters {
			if slices.Contains(alive, name) {
				living++
			}
		}
		if living < voters {
			return fmt.Sprintf("shard %d has %d living voters of %d", shard.Shard, living, voters)
		}
		for _, lag := range shard.Lags {
			if slices.Contains(alive, lag.Node) && (!lag.Active || lag.Entries > closeBehind) {
				return fmt.Sprintf("%s is %d entries behind in shard %d", lag.Node, lag.Entries, shard.Shard)
			}
		}
	}
	return ""
}

// share returns the least and the most shards owned by one of the given nodes.
func (s *status) share(names []string) (least, most int) {
	least = len(s.Shards)
	for _, name := range names {
		n := s.owned(name)
		least, most = min(least, n), max(most, n)
	}
	return least, most
}

// owned returns how many shards a node owns.
func (s *status) owned(name string) int {
	n := 0
	for _, shard := range s.Shards {
		if shard.Owner == name {
			n++
		}
	}
	return n
}
