package schema

import "context"

// MaxSteps is the budget of a check.
const MaxSteps = maxSteps

// Steps checks a value and returns the steps that it took.
func Steps(ctx context.Context, schema, value []byte) (int, error) {
	within := &budget{left: maxSteps}
	err := new(Checker).validate(ctx, schema, value, within)
	return maxSteps - within.left, err
}
