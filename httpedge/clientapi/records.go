package clientapi

import (
	"errors"
	"strings"

	"parley/actors/core/collection"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// recordError tells in this surface's words that a record is missing.
func recordError(err error) error {
	missing, is := errors.AsType[*collection.MissingError](err)
	if !is {
		return err
	}
	return machine.Fail(failurepb.Code_NOT_FOUND, "%s not found", strings.ToUpper(missing.Noun[:1])+missing.Noun[1:])
}
