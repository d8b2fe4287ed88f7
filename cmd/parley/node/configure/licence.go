package configure

import (
	"fmt"

	"parley/actors/core/identity"
	"parley/cmd/parley/config"
	"parley/httpedge/licence"
)

// Licences returns what reads offline licence keys, nil when none is taken.
func Licences(c *config.Config) (identity.LicenceKeys, error) {
	keys, err := c.License.PublicKeys()
	if err != nil || keys == "" {
		return nil, err
	}
	reader, err := licence.New(licence.Config{PublicKey: []byte(keys), Issuer: c.License.Issuer, Audience: c.License.Audience})
	if err != nil {
		return nil, fmt.Errorf("license.public_key: %w", err)
	}
	return reader, nil
}
