package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/persistence/directory"
	"parley/persistence/fsm"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// The cluster record repeats in the replicated directory what the identity file says on each node. A node whose data
// belongs to another cluster, or has another number of shards, is detected before it serves anything.
const (
	clusterCollection = "cluster"
	clusterKey        = "identity"
	confirmTimeout    = 10 * time.Second
)

// clusterRecord is the record's value. Format is that of a new data directory; nobody reads it.
type clusterRecord struct {
	ClusterID string    `json:"cluster_id"`
	Shards    int       `json:"shards"`
	Format    int       `json:"format"`
	Created   time.Time `json:"created"`
}

// checkCluster compares the record, if this node has it, with the identity.
func (s *Store) checkCluster() error {
	stored, ok := s.directory.Get(clusterCollection, clusterKey)
	if !ok {
		return nil
	}
	var r clusterRecord
	if err := json.Unmarshal(stored.Value, &r); err != nil {
		return refuse(s.opts.Dir, fmt.Errorf("decode cluster record: %w", err))
	}
	if r.ClusterID != s.identity.ClusterID || r.Shards != s.identity.Shards {
		return refuse(s.opts.Dir, fmt.Errorf("its data is of cluster %s with %d shards, its %s file says %s with %d",
			r.ClusterID, r.Shards, identityName, s.identity.ClusterID, s.identity.Shards))
	}
	s.confirmed.Store(true)
	return nil
}

// confirmCluster writes the record when this node leads the directory and there is none, and checks it otherwise.
func (s *Store) confirmCluster(ctx context.Context) error {
	if s.confirmed.Load() {
		return nil
	}
	if _, ok := s.directory.Get(clusterCollection, clusterKey); !ok {
		if _, _, leading := s.driver.Leader(fsm.Directory); !leading {
			return nil // tried again when there is a leader
		}
		value, err := json.Marshal(clusterRecord{
			ClusterID: s.identity.ClusterID, Shards: s.identity.Shards, Format: firstFormat, Created: time.Now().UTC(),
		})
		if err != nil {
			return fmt.Errorf("encode cluster record: %w", err)
		}
		putCtx, cancel := context.WithTimeout(ctx, confirmTimeout)
		defer cancel()
		_, err = s.directory.Put(putCtx, clusterCollection, clusterKey, 0, value)
		if err != nil && !errors.Is(err, directory.ErrConflict) {
			return err
		}
	}
	if err := s.checkCluster(); err != nil {
		s.condition.fail(err)
		return err
	}
	return nil
}

// directoryLog proposes the directory's records to its log.
type directoryLog Store

// ProposePut writes a directory record through the log.
func (l *directoryLog) ProposePut(ctx context.Context, p *logpb.Put) (*logpb.Result, error) {
	if err := fsm.ValidatePut(p); err != nil {
		return nil, err
	}
	data, err := fsm.EncodePut(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return (*Store)(l).propose(ctx, fsm.Directory, data)
}

func (s *Store) propose(ctx context.Context, group replica.GroupID, data []byte) (*logpb.Result, error) {
	answer, err := s.driver.Propose(ctx, group, data)
	if err != nil {
		return nil, fmt.Errorf("append to log: %w", s.elsewhere(err, uint32(group)))
	}
	result, ok := answer.(*logpb.Result)
	if !ok || result.GetOutcome() == logpb.Outcome_OUTCOME_UNSPECIFIED {
		return nil, fmt.Errorf("append to log: %w", ErrInvalid)
	}
	return result, nil
}
