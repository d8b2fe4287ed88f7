package login

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/endpoint"
)

// withCookies is a request of which only the cookies are looked at.
type withCookies struct {
	endpoint.Request

	sent string
}

func (r withCookies) Header(string) string { return r.sent }

// TestCookies: what other applications on the host have set takes nobody's session away.
func TestCookies(t *testing.T) {
	for sent, want := range map[string][2]string{
		"":                                    {"", ""},
		"token=abc; active_project_id=p":      {"abc", "p"},
		`token=abc; prefs={"a":1}`:            {"abc", ""},
		"token=abc; k=é; active_project_id=p": {"abc", "p"},
		"token=abc; foo":                      {"abc", ""},
		"; token=abc; ":                       {"abc", ""},
		"token=abc; token=abc":                {"abc", ""},
		"token=abc; token=def":                {"", ""},
	} {
		signed, project := cookies(withCookies{sent: sent})
		require.Equal(t, want, [2]string{signed, project}, sent)
	}
	require.Equal(t, "f", only(cookiesOf(withCookies{sent: `signin_flow=f; prefs={"a":1}`}), FlowCookie), "a sign-in at the provider goes on, too")
}
