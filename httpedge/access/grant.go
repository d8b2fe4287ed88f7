package access

import "parley/proto/directorypb"

// Grant is what an API token gives its bearer, made from the records once and shared afterwards: do not change it.
type Grant struct {
	Token   *directorypb.Token
	Owner   *directorypb.User
	Tenant  *directorypb.Tenant
	Project *directorypb.Project
}
