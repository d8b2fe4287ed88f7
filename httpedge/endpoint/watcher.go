package endpoint

import (
	"context"
	"errors"
	"time"

	"parley/actors/machine"
)

// Watcher is what an Authenticator may be, too: it goes on to say whether those that it let in still would be.
type Watcher interface {
	// Watch returns what says why a caller that was let in to a route would not be any more; nil = it would. It may be asked
	// often, from any goroutine: it does not wait, and what streams of one token get is shared. A nil function = nothing that
	// this server knows of can change it.
	Watch(caller Caller, route *Route) (still func() *machine.Failure)
}

// authenticator is who lets callers in to this route; nil where anybody may.
func (x *exchange) authenticator() Authenticator {
	switch {
	case x.route.public:
		return nil
	case x.surface.Authenticator != nil:
		return x.surface.Authenticator
	default:
		return x.mux.config.Authenticator
	}
}

// still is what Watch says of this request, nil = nothing.
func (x *exchange) still() func() *machine.Failure {
	if watcher, ok := x.authenticator().(Watcher); ok {
		return watcher.Watch(x.call.Caller, x.route)
	}
	return nil
}

// watched ends the context of a route that may take long once its caller would not be let in any more; the refusal is then the
// cause. What the handler left to be sent is bound by it, too; finish ends it.
func (x *exchange) watched(ctx context.Context) context.Context {
	watcher, ok := x.authenticator().(Watcher)
	every := x.mux.config.RecheckEvery
	if !ok || x.route.Timeout <= max(every, x.mux.config.RequestTimeout) { // the usual ones are over soon by themselves
		return ctx
	}
	caller, route := x.call.Caller, x.route // x ends with the request
	var still func() *machine.Failure       // made when it is needed: few requests last so long
	return x.tended(ctx, every, func() error {
		if still == nil {
			if still = watcher.Watch(caller, route); still == nil {
				return nil
			}
		}
		if failure := still(); failure != nil {
			return failure
		}
		return nil
	})
}

// tended asks now and then, as long as the request lasts, whether its context is to end: the cause, or nil.
func (x *exchange) tended(ctx context.Context, every time.Duration, end func() error) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		if ctx.Err() != nil {
			return
		}
		if cause := end(); cause != nil {
			cancel(cause)
			return
		}
		timer.Reset(every)
	})
	timer.Reset(every) // not before timer is set
	release := x.cancel
	x.cancel = func() {
		timer.Stop()
		cancel(nil)
		release()
	}
	return ctx
}

// refused returns the refusal that ended a request's context, or err.
func refused(ctx context.Context, err error) error {
	if failure, ok := errors.AsType[*machine.Failure](context.Cause(ctx)); ok {
		return failure
	}
	return err
}
