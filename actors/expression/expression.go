package expression

import (
	"context"
	"errors"
	"fmt"

	"github.com/expr-lang/expr/vm"
)

// Evaluator evaluates programs, a bounded number at once. Safe for concurrent use.
type Evaluator struct {
	slots chan struct{}
}

// New returns an Evaluator that runs at most atOnce evaluations at the same time.
func New(atOnce int) *Evaluator {
	return &Evaluator{slots: make(chan struct{}, max(1, atOnce))}
}

// Holds evaluates a condition over the values, which it does not change. It waits while too many others run. The error
// is ErrBudget, the context's, or a type mismatch; the result of the condition is then unknown.
func (e *Evaluator) Holds(ctx context.Context, condition *Program, values map[string]any) (bool, error) {
	result, err := e.evaluate(ctx, condition, values)
	if err != nil {
		return false, err
	}
	holds, isVerdict := result.(bool)
	if !isVerdict {
		return false, fmt.Errorf("the condition is neither true nor false: it is of type %T", result)
	}
	return holds, nil
}

func (e *Evaluator) evaluate(ctx context.Context, p *Program, values map[string]any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.slots }()
	result, err := vm.Run(p.code, withMeter(values, newMeter(ctx)))
	if err == nil {
		return result, nil
	}
	if stopped := ctx.Err(); stopped != nil && errors.Is(err, stopped) {
		return nil, stopped
	}
	return nil, shortened(err)
}
