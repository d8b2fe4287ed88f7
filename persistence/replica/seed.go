package replica

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3/raftpb"
)

// GroupSeed is the starting point of a group whose state does not come from its log: a new group, or one from a backup.
type GroupSeed struct {
	Group GroupID
	// Index and Term are the position of the state; at least 1. The first entry is Index+1, and the first leader's term is above Term.
	Index, Term uint64
	// Voters are the first members. At least one.
	Voters []NodeID
}

// SeedStore stages the row by which Open recognises a store of this node. prefix is Config.KeyPrefix, nil for its
// default.
func SeedStore(batch *pebble.Batch, prefix []byte, node NodeID) error {
	if node == 0 {
		return fmt.Errorf("seed store: node must not be 0")
	}
	return set(batch, storeKey(orDefault(prefix)), encodeStore(node))
}

// Seed stages the rows of a group, as if a snapshot at its position had been installed. The state must be in the
// group's Span, in the same batch or made durable before it.
func Seed(batch *pebble.Batch, prefix []byte, seed GroupSeed) error {
	if seed.Index == 0 || seed.Term == 0 || len(seed.Voters) == 0 || slices.Contains(seed.Voters, 0) {
		return fmt.Errorf("seed group %d: index %d, term %d, voters %v", seed.Group, seed.Index, seed.Term, seed.Voters)
	}
	voters := make([]uint64, 0, len(seed.Voters))
	for _, v := range slices.Compact(slices.Sorted(slices.Values(seed.Voters))) {
		voters = append(voters, uint64(v))
	}
	conf, err := encodeMessage(&raftpb.ConfState{Voters: voters})
	if err != nil {
		return err
	}
	keys := keysOf(orDefault(prefix), seed.Group)
	at := encodePosition(position{index: seed.Index, term: seed.Term})
	for _, row := range []struct {
		kind  byte
		value []byte
	}{
		{kindHardState, encodeHardState(hardState{term: seed.Term, commit: seed.Index})},
		{kindStart, at},
		{kindApplied, at},
		{kindConfState, conf},
	} {
		if err := set(batch, keys.row(row.kind), row.value); err != nil {
			return err
		}
	}
	return nil
}

func orDefault(prefix []byte) []byte {
	if len(prefix) == 0 {
		return []byte(defaultKeyPrefix)
	}
	return prefix
}

func set(batch *pebble.Batch, key, value []byte) error {
	if err := batch.Set(key, value, nil); err != nil {
		return fmt.Errorf("stage row: %w", err)
	}
	return nil
}
