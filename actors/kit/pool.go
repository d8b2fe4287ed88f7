package kit

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Pool runs what entities have going on outside: a worker for an entity that needs one, and short calls.
type Pool interface {
	// Work has an entity worked on, behind the worker that it has: there is one at a time. It does nothing while the entity is
	// worked on with the same job (comparable; nil = no job is the same) in the same epoch. The run must return soon after its
	// context has ended. Others than Max at a time wait for room.
	Work(at Ref, job any, run func(ctx context.Context))
	// Working says whether an entity is worked on, or will be as soon as there is room, in its epoch.
	Working(at Ref) bool
	// Call does something short on a goroutine of its own, and logs its error. It is false, and nothing is done, when too much
	// is under way.
	Call(at Ref, what string, do func(ctx context.Context) error) bool
	// Log reports what a worker could not do.
	Log(at Ref, what string, err error)
	// Release ends the workers of a shard's entities under epochs up to the given one; for Entity.OnRelease.
	Release(shard uint32, epoch uint64)
	// Drain ends everything and waits for that; for Entity.Drain. What is open stays open for the next owner.
	Drain(ctx context.Context)
}

// WorthRetry says that a command was not carried out for a reason that may pass.
func WorthRetry(err error) bool {
	failure, is := errors.AsType[*machine.Failure](err)
	if !is {
		return false
	}
	switch failure.Code {
	case failurepb.Code_UNAVAILABLE, failurepb.Code_STORAGE_FULL, failurepb.Code_STORAGE_FAILED:
		return true
	default:
		return false
	}
}

// IsCode says that a command was refused with a code.
func IsCode(err error, code failurepb.Code) bool {
	failure, is := errors.AsType[*machine.Failure](err)
	return is && failure.Code == code
}

// NotOwner says that a command was not carried out because the node does not own the entity's shard any more: whoever does
// goes on with it.
func NotOwner(err error) bool {
	var notOwner interface {
		NotOwner() (shard uint32, epoch uint64)
	}
	return errors.As(err, &notOwner)
}

// Repeat does what may fail for a reason that passes until it does not, or ctx ends.
func Repeat(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if ctx.Err() != nil || NotOwner(err) || !WorthRetry(err) {
			return err
		}
		Pause(ctx, try)
	}
}

const (
	// firstPause and lastPause bound the pauses between tries.
	firstPause = 50 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Pause waits before another try, numbered from 1: ever longer, with jitter, and no longer than ctx.
func Pause(ctx context.Context, try int) {
	long := lastPause
	if try < 9 {
		long = min(firstPause<<try, lastPause)
	}
	timer := time.NewTimer(long/2 + rand.N(long/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
