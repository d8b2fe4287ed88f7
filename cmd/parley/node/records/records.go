// Package records is the cluster's directory as every node uses it: reads come from the node's own copy, writes go to the leader.
package records

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/cluster"
	"parley/cluster/shard"
	"parley/persistence"
	"parley/persistence/directory"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/nodepb"
)

// Store implements collection.Store: reads come from this node's copy of the directory, writes go to the directory's leader.
type Store struct {
	directory *directory.Directory
	await     func(ctx context.Context, version uint64) error
	router    *cluster.Router
	owners    *cluster.Owners
	others    func() []string // names of the other live nodes
	wait      time.Duration   // bounds the time without an owner that answers
	fresh     freshness
	turns     turns // by scope of guarded writes
}

const (
	// recordTimeout bounds a write unless the caller's context does; records.wait bounds the part of it without an owner that
	// answers.
	recordTimeout = 10 * time.Second
	// guardedTimeout bounds a guarded write, including its wait for those before it.
	guardedTimeout = 20 * time.Second
	// guardedTries bounds the retries of a guarded write: each follows a write of another node in the same scope.
	guardedTries = 100
	// spreadTimeout bounds how long a write waits until the other nodes have received it.
	spreadTimeout = 250 * time.Millisecond
	// recordPause is the first pause before a write is retried after an owner did not answer.
	recordPause = 20 * time.Millisecond
)

// Config is what the records of a node are made of.
type Config struct {
	Store  *persistence.Store
	Router *cluster.Router
	Owners *cluster.Owners
	Others func() []string // names of the other live nodes
	Wait   time.Duration   // bounds the time without an owner that answers; 0 = the default of a cluster
}

// New returns the records of a node. stop ends its pending confirmations.
func New(c Config) (r *Store, stop func(context.Context)) {
	r = &Store{
		directory: c.Store.Directory(), await: c.Store.AwaitRecords, router: c.Router, owners: c.Owners, others: c.Others,
		wait: cmp.Or(c.Wait, cluster.DefaultOwnerWait),
	}
	r.fresh.start(r.confirm, r.wait)
	return r, func(context.Context) { r.fresh.stop() }
}

// Get returns a record from this node's copy of the directory.
func (r *Store) Get(name, key string) (collection.Record, bool) {
	return r.directory.Get(name, key)
}

// List returns the records whose key begins with a prefix, by key. It is a part of the directory's own slice.
func (r *Store) List(name, prefix string) []collection.Record {
	all := r.directory.List(name)
	first, _ := slices.BinarySearchFunc(all, prefix, func(record collection.Record, prefix string) int {
		return strings.Compare(record.Key, prefix)
	})
	all = all[first:]
	after := sort.Search(len(all), func(i int) bool { return !strings.HasPrefix(all[i].Key, prefix) })
	return all[:after:after]
}

// Watch returns a channel that holds a value whenever the collection has changed.
func (r *Store) Watch(name string) (changed <-chan struct{}, stop func()) {
	return r.directory.Watch(name)
}

// Find is Get, but reports a record missing only after this node's copy has caught up with the leader.
func (r *Store) Find(ctx context.Context, name, key string) (collection.Record, bool, error) {
	record, found := r.Get(name, key)
	if found || r.fresh.missed(name, key) {
		return record, found, nil
	}
	bounded, cancel := context.WithTimeout(ctx, r.wait) // also while an earlier confirmation is under way
	defer cancel()
	if err := r.fresh.pass(bounded); err != nil {
		return collection.Record{}, false, directoryFault("ask for a record", err)
	}
	if record, found = r.Get(name, key); !found {
		r.fresh.miss(name, key)
	}
	return record, found, nil
}

// CatchUp returns once this node's copy includes every write acknowledged before the call.
func (r *Store) CatchUp(ctx context.Context) error {
	if err := r.fresh.pass(ctx); err != nil {
		return directoryFault("catch up", err)
	}
	return nil
}

// confirm returns once this node's copy includes every write acknowledged before the call.
func (r *Store) confirm(ctx context.Context) error {
	answer, _, err := r.router.Read(ctx, shard.Directory, &nodepb.VersionQuery{})
	if err != nil {
		return err
	}
	reply, ok := answer.(*nodepb.VersionReply)
	if !ok {
		return fmt.Errorf("a read was answered with a %T", answer)
	}
	return r.await(ctx, reply.GetVersion())
}

// Put writes a record whose stored version is expected.
func (r *Store) Put(ctx context.Context, name, key string, expected uint64, value []byte) (version uint64, err error) {
	return r.write(ctx, &nodepb.PutRecord{Collection: name, Key: key, ExpectedVersion: expected, Value: value})
}

// Delete removes a record whose stored version is expected.
func (r *Store) Delete(ctx context.Context, name, key string, expected uint64) error {
	_, err := r.write(ctx, &nodepb.PutRecord{Collection: name, Key: key, ExpectedVersion: expected, Delete: true})
	return err
}

// Guarded writes what decide returns if nothing in the scope was written meanwhile, else calls it again. Guarded writes of one
// node are serialized, so that they do not conflict with each other; those of other nodes are detected by the guard's version,
// which is read first.
func (r *Store) Guarded(ctx context.Context, scope string, decide func() (*collection.Write, error)) (version uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, guardedTimeout)
	defer cancel()
	leave, err := r.turns.take(ctx, scope)
	if err != nil {
		return 0, directoryFault("wait to write", err)
	}
	defer leave()
	for try := 1; ; try++ {
		guard, _ := r.Get(collection.Guards, scope)
		write, err := decide()
		if err != nil || write == nil {
			return 0, err
		}
		version, err = r.write(ctx, &nodepb.PutRecord{
			Collection: write.Collection, Key: write.Key, ExpectedVersion: write.Expected, Value: write.Value, Delete: write.Delete,
			Guard: &logpb.Guard{Collection: collection.Guards, Key: scope, ExpectedVersion: guard.Version},
		})
		if !collection.IsConflict(err) || try == guardedTries || ctx.Err() != nil {
			return version, err
		}
	}
}

func (r *Store) write(ctx context.Context, put *nodepb.PutRecord) (version uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	reply, lost, err := r.send(ctx, put)
	if err != nil {
		return 0, directoryFault("write a record", err)
	}
	if reply.GetConflict() && lost {
		// The conflicting record may be this write, made by an attempt whose answer was lost.
		if reply, err = r.own(ctx, put, reply); err != nil {
			return 0, directoryFault("write a record", err)
		}
	}
	if reply.GetConflict() {
		// A retry should read the current record.
		spread, cancel := context.WithTimeout(ctx, spreadTimeout)
		defer cancel()
		_ = r.await(spread, reply.GetVersion()) // if it has not arrived, the retry conflicts again
		return 0, failure.New(failurepb.Code_CONFLICT, failure.RecordChanged)
	}
	r.spread(ctx, put.GetCollection(), reply.GetVersion())
	return reply.GetVersion(), nil
}

// send sends the write to the owner of the directory and retries until one answers. lost reports that an attempt before the
// answered one may have been applied.
func (r *Store) send(ctx context.Context, put *nodepb.PutRecord) (reply *nodepb.PutRecordReply, lost bool, err error) {
	err = errNoDirectory
	patience := cluster.NewPatience(r.wait, recordPause)
	for {
		owner, known, changed := r.owners.Watch(shard.Directory)
		if known {
			start := time.Now()
			reply, err = r.sendTo(ctx, owner.Node, changed, put)
			if err == nil || !askAgain(err) {
				return reply, lost, err
			}
			lost = lost || !Undone(err)
			patience.Spend(time.Since(start), err)
		}
		if patience.Over() {
			return nil, lost, err
		}
		if waited := patience.Wait(ctx, changed, known); waited != nil {
			return nil, lost, fmt.Errorf("%w: %w", waited, err)
		}
	}
}

var errNoDirectory = errors.New("the directory has no owner")

// sendTo cancels the call when the node loses the directory: it may be cut off and never answer.
func (r *Store) sendTo(ctx context.Context, node string, changed <-chan struct{}, put *nodepb.PutRecord) (*nodepb.PutRecordReply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	answered := make(chan struct{})
	defer close(answered)
	watching.Go(func() {
		select {
		case <-changed:
			cancel(errDirectoryMoved)
		case <-answered:
		}
	})
	answer, err := r.router.Call(ctx, node, put)
	if err != nil {
		if errors.Is(context.Cause(ctx), errDirectoryMoved) {
			err = fmt.Errorf("%w: %w", errDirectoryMoved, err)
		}
		return nil, err
	}
	reply, ok := answer.(*nodepb.PutRecordReply)
	if !ok {
		return nil, fmt.Errorf("a write was answered with a %T", answer)
	}
	return reply, nil
}

var errDirectoryMoved = errors.New("the directory has another owner now")

// Undone reports whether a failed write was certainly not applied.
func Undone(err error) bool {
	var refused *machine.Failure
	switch {
	case errors.Is(err, errDirectoryMoved):
		return false
	case follow.IsNotOwner(err):
		return true
	}
	return errors.As(err, &refused) && (refused.Details[detailUnwritten] != nil || refused.Code == failurepb.Code_STORAGE_FULL)
}

// detailUnwritten is the detail of a storage failure that says that nothing was written.
const detailUnwritten = "unwritten"

// askAgain reports whether another attempt may succeed. The caller bounds the time.
func askAgain(err error) bool {
	var refused *machine.Failure
	switch {
	case errors.Is(err, errDirectoryMoved), follow.IsNotOwner(err), follow.IsLost(err):
		return true
	}
	return errors.As(err, &refused) && refused.Code == failurepb.Code_UNAVAILABLE
}

// own turns a conflict into success if the stored record is the one that the write would have made.
func (r *Store) own(ctx context.Context, put *nodepb.PutRecord, conflict *nodepb.PutRecordReply) (*nodepb.PutRecordReply, error) {
	answer, _, err := r.router.Read(ctx, shard.Directory, &nodepb.RecordQuery{Collection: put.GetCollection(), Key: put.GetKey()})
	if err != nil {
		return nil, err
	}
	stored, ok := answer.(*nodepb.RecordReply)
	switch {
	case !ok:
		return nil, fmt.Errorf("a read was answered with a %T", answer)
	case put.GetDelete() && !stored.GetFound():
		return &nodepb.PutRecordReply{Version: conflict.GetVersion()}, nil
	case !put.GetDelete() && stored.GetFound() && stored.GetVersion() > put.GetExpectedVersion() && bytes.Equal(stored.GetValue(), put.GetValue()):
		return &nodepb.PutRecordReply{Version: stored.GetVersion()}, nil
	}
	return conflict, nil
}

// spread waits until this node's copy includes the write, and a moment for those of the other nodes, which get it in any case.
func (r *Store) spread(ctx context.Context, name string, version uint64) {
	short, cancel := context.WithTimeout(ctx, spreadTimeout)
	defer cancel()
	var asked sync.WaitGroup
	if name != identity.TokenUses { // nobody waits for these
		owner, _ := r.owners.Owner(shard.Directory)
		for _, other := range r.others() {
			if other == owner.Node {
				continue // it made the write
			}
			asked.Go(func() {
				_, _ = r.router.Call(short, other, &nodepb.AwaitRecords{Version: version}) // an optimization: a failure does not matter
			})
		}
	}
	_ = r.await(ctx, version) // the write has succeeded even if this node does not receive it in time
	asked.Wait()
}

// directoryFault turns a failed write or read of the directory into what the caller should see.
func directoryFault(what string, err error) error {
	switch {
	case askAgain(err), errors.Is(err, errNoDirectory), errors.Is(err, context.DeadlineExceeded), errors.Is(err, persistence.ErrStopped):
		unavailable := failure.New(failurepb.Code_UNAVAILABLE, failure.DirectoryNotAvailable)
		return fmt.Errorf("%s: %w: %w", what, unavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
