package expression_test

import (
	"context"
	"errors"
	"fmt"

	"parley/actors/expression"
)

// A tool asks for approval only when a condition over its arguments holds.
func ExampleApproval() {
	condition, err := expression.Approval(`args.amount > 100`)
	if err != nil {
		panic(err)
	}
	evaluator := expression.New(2)
	for _, amount := range []float64{20, 500} {
		ask, err := evaluator.Holds(context.Background(), condition, map[string]any{"args": map[string]any{"amount": amount}})
		fmt.Println(amount, ask, err)
	}
	// Output:
	// 20 false <nil>
	// 500 true <nil>
}

// Expressions come from users and are evaluated over what a model wrote. One that would take too long ends with an error.
func ExampleEvaluator_Holds() {
	costly, err := expression.Approval(`all(1..10000, all(1..10000, # > 0))`)
	if err != nil {
		panic(err)
	}
	_, err = expression.New(1).Holds(context.Background(), costly, map[string]any{"args": map[string]any{}})
	fmt.Println(errors.Is(err, expression.ErrBudget))
	// Output: true
}
