package kit

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Pool is the worker pool of entities: it runs at most one worker per entity, and short calls.
type Pool interface {
	// Work starts a worker for an entity, after its present worker has ended. It does nothing while a worker with the same
	// job (comparable; nil equals no job) runs in the same epoch. The run must return soon after its context has ended.
	// Workers beyond the pool's size wait.
	Work(at Ref, job any, run func(ctx context.Context))
	// Working reports whether an entity has a worker of its epoch, running or waiting for room.
	Working(at Ref) bool
	// Call runs a short function on its own goroutine and logs its error. It returns false, and runs nothing, when too many
	// calls are under way.
	Call(at Ref, what string, do func(ctx context.Context) error) bool
	// Log reports what a worker could not do.
	Log(at Ref, what string, err error)
	// Release ends the workers of a shard's entities under epochs up to the given one; for Entity.OnRelease.
	Release(shard uint32, epoch uint64)
	// Drain ends everything and waits for that; for Entity.Drain. What is open stays open for the next owner.
	Drain(ctx context.Context)
}

// WorthRetry reports whether a command failed for a temporary reason.
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

// FailureOf returns the failure with which the rules have finally refused a command, nil if err is none.
func FailureOf(err error) *machine.Failure {
	failure, is := errors.AsType[*machine.Failure](err)
	if !is || WorthRetry(err) {
		return nil
	}
	return failure
}

// IsCode reports whether err is a failure with the code.
func IsCode(err error, code failurepb.Code) bool {
	failure, is := errors.AsType[*machine.Failure](err)
	return is && failure.Code == code
}

// NotOwner reports whether a command failed because the node no longer owns the entity's shard. The new owner carries on.
func NotOwner(err error) bool {
	var notOwner interface {
		NotOwner() (shard uint32, epoch uint64)
	}
	return errors.As(err, &notOwner)
}

// Repeat calls do until it no longer fails for a temporary reason, or ctx ends.
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
