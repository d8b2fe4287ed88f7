package site_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/site"
)

func TestRefuse(t *testing.T) {
	policy := site.Policy{Hosts: []string{"chat.example.com"}, Origins: []string{"https://app.example.com"}}
	type request = site.Request
	const local = "localhost:8080"
	for name, c := range map[string]struct {
		request site.Request
		taken   bool
	}{
		"curl":                    {request{Method: "POST", Host: local}, true},
		"no_host":                 {request{Method: "GET"}, true},
		"address":                 {request{Method: "GET", Host: "127.0.0.1:8080"}, true},
		"long_address":            {request{Method: "GET", Host: "[::1]:8080"}, true},
		"long_address_bare":       {request{Method: "GET", Host: "[::1]"}, true},
		"sub_name":                {request{Method: "GET", Host: "parley.localhost:8080"}, true},
		"capitals_and_a_dot":      {request{Method: "GET", Host: "LocalHost.:8080"}, true},
		"named_host":              {request{Method: "GET", Host: "Chat.Example.com:443"}, true},
		"rebinding":               {request{Method: "GET", Host: "evil.example:8080"}, false},
		"rebinding_same_origin":   {request{Method: "GET", Host: "evil.example:8080", FetchSite: "same-origin"}, false},
		"name_that_ends_so":       {request{Method: "GET", Host: "evillocalhost:8080"}, false},
		"name_that_begins_so":     {request{Method: "GET", Host: "localhost.evil.example"}, false},
		"address_as_a_name":       {request{Method: "GET", Host: "127.0.0.1.evil.example"}, false},
		"control_characters":      {request{Method: "GET", Host: "e\x1bvil"}, false},
		"own_page":                {request{Method: "POST", Host: local, Origin: "http://localhost:8080", FetchSite: "same-origin"}, true},
		"own_page_behind_tls":     {request{Method: "POST", Host: "chat.example.com", Origin: "https://chat.example.com"}, true},
		"typed":                   {request{Method: "GET", Host: local, FetchSite: "none", FetchMode: "navigate", FetchDest: "document"}, true},
		"origin_that_may":         {request{Method: "POST", Host: local, Origin: "https://app.example.com", FetchSite: "cross-site"}, true},
		"other_origin":            {request{Method: "POST", Host: local, Origin: "https://evil.example", FetchSite: "cross-site"}, false},
		"old_browser":             {request{Method: "POST", Host: local, Origin: "https://evil.example"}, false},
		"other_port":              {request{Method: "POST", Host: local, Origin: "http://localhost:3000", FetchSite: "same-site"}, false},
		"other_name_of_loopback":  {request{Method: "POST", Host: local, Origin: "http://127.0.0.1:8080"}, false},
		"null":                    {request{Method: "POST", Host: local, Origin: "null"}, false},
		"file":                    {request{Method: "POST", Host: local, Origin: "file://"}, false},
		"broken_origin":           {request{Method: "POST", Host: local, Origin: "%zz"}, false},
		"picture":                 {request{Method: "GET", Host: local, FetchSite: "cross-site", FetchMode: "no-cors", FetchDest: "image"}, false},
		"picture_of_another_port": {request{Method: "GET", Host: local, FetchSite: "same-site", FetchMode: "no-cors", FetchDest: "image"}, false},
		"frame":                   {request{Method: "GET", Host: local, FetchSite: "cross-site", FetchMode: "navigate", FetchDest: "iframe"}, false},
		"link":                    {request{Method: "GET", Host: local, FetchSite: "cross-site", FetchMode: "navigate", FetchDest: "document"}, true},
		"form":                    {request{Method: "POST", Host: local, FetchSite: "cross-site", FetchMode: "navigate", FetchDest: "document"}, false},
		"preflight":               {request{Method: "OPTIONS", Host: local, Origin: "https://evil.example"}, true},
		"preflight_by_rebinding":  {request{Method: "OPTIONS", Host: "evil.example", Origin: "https://evil.example"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			why := policy.Refuse(c.request)
			require.Equal(t, c.taken, why == nil, why)
			if why != nil {
				require.NotContains(t, why.DefaultText(), "\x1b")
			}
		})
	}
	require.Nil(t, site.Policy{AnyHost: true}.Refuse(request{Method: "GET", Host: "any.example"}))
	require.NotNil(t, site.Policy{AnyHost: true}.Refuse(request{Method: "GET", Host: "any.example", Origin: "https://evil.example"}))
	require.Nil(t, site.Policy{Origins: []string{"*"}}.Refuse(request{Method: "POST", Host: local, Origin: "https://any.example"}))
}
