package identity

import "parley/proto/directorypb"

// KnownUser returns a user of a tenant as this node knows them, nil when there is none.
func (a *Accounts) KnownUser(tenantID, id string) *directorypb.User {
	if user := a.users.Known(id); user.GetTenantId() == tenantID {
		return user
	}
	return nil
}

// KnownToken returns an API token of a tenant as this node knows it, nil when there is none.
func (a *Accounts) KnownToken(tenantID, id string) (*directorypb.Token, error) {
	token, err := a.tokens.Lookup(idTerm(id))
	if err != nil || token.GetTenantId() != tenantID {
		return nil, err
	}
	return token, nil
}
