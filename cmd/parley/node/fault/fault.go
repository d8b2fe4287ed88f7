// Package fault carries errors from one node to another: a failure arrives as it was, any other error as its text.
package fault

import (
	"context"
	"errors"
	"fmt"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// remoteError is an unexpected error of another node.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return "on another node: " + e.text }

// Encode encodes a failure or an error for another node. "Not the owner" has its own message.
func Encode(err error) *nodepb.Fault {
	var refused *failure.Failure
	switch {
	case errors.As(err, &refused):
		e, encodeErr := refused.Encode()
		if encodeErr != nil {
			return &nodepb.Fault{Message: fmt.Sprintf("%v (%v)", err, encodeErr)}
		}
		return &nodepb.Fault{
			Code: e.Code, Message: e.Message, Details: e.Details, Reason: e.Reason, Field: e.Field, Params: e.Params,
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &nodepb.Fault{Code: failurepb.Code_UNAVAILABLE, Message: "no answer in time; it may come to pass all the same"}
	}
	return &nodepb.Fault{Message: err.Error()}
}

// Decode is the inverse of encodeFault: a failure comes back as it was, any other error as its text.
func Decode(fault *nodepb.Fault) error {
	if fault.GetCode() == failurepb.Code_CODE_UNSPECIFIED {
		return &remoteError{fault.GetMessage()}
	}
	refused, err := failure.Decode(fault)
	if err != nil {
		return &remoteError{fmt.Sprintf("%v (%v)", refused, err)}
	}
	return refused
}
