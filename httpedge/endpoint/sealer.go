package endpoint

// Sealer encrypts secrets before they are stored. Nothing at the edge opens them again.
type Sealer interface {
	// Seal encrypts a secret; about names what it belongs to (record key and field) and is needed to open it. A
	// SECRETS_UNAVAILABLE failure says that nothing to encrypt with is configured.
	Seal(secret []byte, about string) ([]byte, error)
}
