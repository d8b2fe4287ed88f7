package node

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPublicRoutes: what TestPermissionTable leaves out, since nobody has to be known for it, is this and no more.
func TestPublicRoutes(t *testing.T) {
	var public []string
	for _, mounted := range Surfaces() {
		for i := range mounted.Surface.Routes {
			if route := &mounted.Surface.Routes[i]; route.IsPublic() {
				public = append(public, route.Method+" "+mounted.Prefix+route.Path)
			}
		}
	}
	require.ElementsMatch(t, []string{
		"GET /api/client/v1/openapi.json", "GET /api/client/v1/docs", "GET /api/client/v1/docs/{file}",
		"GET /api/auth/register/options", "POST /api/auth/register", "POST /api/auth/login", "POST /api/auth/login/code", "POST /api/auth/accept-invite",
		"POST /api/auth/logout", "POST /api/auth/forgot-password", "POST /api/auth/reset-password",
		"GET /api/auth/oidc", "GET /api/auth/oidc/start", "GET /api/auth/oidc/callback",
		"GET /api/openapi.json", "GET /api/docs", "GET /api/docs/{file}",
	}, public)
}
