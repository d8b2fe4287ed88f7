package endpointtest

import (
	"context"
	"errors"
	"strings"
)

// CheckCallback refuses one private network.
func CheckCallback(_ context.Context, url string) error {
	if strings.HasPrefix(url, "http://10.") {
		return errors.New("leads to an address that is not allowed")
	}
	return nil
}
