package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// The records of nodes, in the directory.
const nodesCollection = "nodes"

// States of a node's record.
const (
	stateActive   = "active"
	stateDraining = "draining"
)

// nodeRecord is the value of a node's record; its key is the node's name.
type nodeRecord struct {
	Node  uint64
	State string
	// stored is the record as it was read: fields of a newer release are written back.
	stored map[string]json.RawMessage
}

// knownNodeFields are the fields of a record that this release knows.
type knownNodeFields struct {
	Node  uint64 `json:"node"`
	State string `json:"state"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *nodeRecord) UnmarshalJSON(text []byte) error {
	var known knownNodeFields
	if err := errors.Join(json.Unmarshal(text, &known), json.Unmarshal(text, &r.stored)); err != nil {
		return err
	}
	r.Node, r.State = known.Node, known.State
	return nil
}

// MarshalJSON implements json.Marshaler.
func (r nodeRecord) MarshalJSON() ([]byte, error) {
	known, err := json.Marshal(knownNodeFields{r.Node, r.State})
	if err != nil {
		return nil, err
	}
	all := maps.Clone(r.stored)
	if err = json.Unmarshal(known, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

func (n *Node) nodeRecord(name string) (record nodeRecord, version uint64, err error) {
	stored, found := n.store.Directory().Get(nodesCollection, name)
	if !found {
		return nodeRecord{}, 0, nil
	}
	if err := json.Unmarshal(stored.Value, &record); err != nil {
		return nodeRecord{}, 0, fmt.Errorf("record of node %s: %w", name, err)
	}
	return record, stored.Version, nil
}

// putNodeRecord writes a record. Only the directory's leader can.
func (n *Node) putNodeRecord(ctx context.Context, name string, record nodeRecord, version uint64) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("record of node %s: %w", name, err)
	}
	_, err = n.store.Directory().Put(ctx, nodesCollection, name, version, value)
	return err
}
