package schema_test

import (
	"context"
	"fmt"

	"parley/actors/schema"
)

// The arguments of a tool call are checked against the schema of the tool before a person is asked to approve them.
func ExampleValidate() {
	order := []byte(`{"type":"object","required":["amount"],"properties":{"amount":{"type":"number","minimum":1}}}`)
	fmt.Println(schema.Check(order))
	fmt.Println(schema.Validate(context.Background(), order, []byte(`{"amount": 12.5}`)))
	fmt.Println(schema.Validate(context.Background(), order, []byte(`{"amount": 0}`)) != nil)
	// Output:
	// <nil>
	// <nil>
	// true
}
