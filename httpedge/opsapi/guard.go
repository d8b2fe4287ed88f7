package opsapi

import (
	"net"
	"net/http"

	"parley/httpedge/site"
)

// guarded refuses requests from browser pages: there is no other authentication.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		policy := site.Policy{Names: s.config.Hosts, AnyHost: !site.Loopback(local)}
		why := policy.Refuse(site.Request{
			Method: r.Method, Host: r.Host, Origin: r.Header.Get("Origin"),
			FetchSite: r.Header.Get("Sec-Fetch-Site"), FetchMode: r.Header.Get("Sec-Fetch-Mode"), FetchDest: r.Header.Get("Sec-Fetch-Dest"),
		})
		if why != nil {
			http.Error(w, why.DefaultText(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
