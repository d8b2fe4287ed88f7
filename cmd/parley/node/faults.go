package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// remoteError is an error that broke something on another node.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return "on another node: " + e.text }

// encodeFault writes a refusal or an error for another node. "Not the owner" is not one of them.
func encodeFault(err error) *nodepb.Fault {
	var failure *machine.Failure
	switch {
	case errors.As(err, &failure):
		fault := &nodepb.Fault{Code: failure.Code, Message: failure.Message}
		if len(failure.Details) > 0 {
			details, encodeErr := json.Marshal(failure.Details)
			if encodeErr != nil {
				return &nodepb.Fault{Message: fmt.Sprintf("%v (its details cannot be encoded: %v)", err, encodeErr)}
			}
			fault.Details = details
		}
		return fault
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &nodepb.Fault{Code: failurepb.Code_UNAVAILABLE, Message: "no answer in time; it may come to pass all the same"}
	}
	return &nodepb.Fault{Message: err.Error()}
}

// decodeFault is the error that encodeFault was given, as far as it matters here.
func decodeFault(fault *nodepb.Fault) error {
	if fault.GetCode() == failurepb.Code_CODE_UNSPECIFIED {
		return &remoteError{fault.GetMessage()}
	}
	failure := &machine.Failure{Code: fault.GetCode(), Message: fault.GetMessage()}
	if len(fault.GetDetails()) > 0 {
		if err := json.Unmarshal(fault.GetDetails(), &failure.Details); err != nil {
			return &remoteError{fmt.Sprintf("%v (its details cannot be decoded: %v)", failure, err)}
		}
	}
	return failure
}
