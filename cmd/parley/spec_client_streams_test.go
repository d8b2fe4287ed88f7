package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// streamsEndWithTheirToken: what a token opened at any node ends with the token, wherever that is revoked.
func streamsEndWithTheirToken(t *testing.T, n *tenant, members []*process) {
	t.Helper()
	session := n.newSession(t)
	for _, c := range []struct {
		name, says string
		take       func(at int, user, token string)
	}{
		{"revoked", ": token not valid any more", func(at int, user, token string) {
			n.at(members[at]).done(t, "DELETE", "/users/"+user+"/tokens/"+token, nil)
		}},
		{"user_deleted", ": token not valid any more", func(at int, user, _ string) {
			operate(t, members[at], "DELETE", "/users/"+user, nil)
		}},
		{"role_lowered", ": permission taken away", func(at int, user, _ string) {
			operate(t, members[at], "PATCH", "/users/"+user, object1{"role": "user"})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for at := range members {
				user := n.done(t, "POST", "/users", object1{"name": "Follower", "role": "admin"}).text("user", "id")
				made := n.done(t, "POST", "/users/"+user+"/tokens", object1{"label": "follows"})
				b := n.with(made.text("token"))
				var open []*stream
				for _, p := range members {
					open = append(open, p.follow(t, "GET", b.at(p).url("/agents/sessions/"+session+"/events/stream"), nil, "Authorization", "Bearer "+b.token))
				}
				open = append(open, members[at].follow(t, "GET", members[at].url("/conversations/"+session+"/events/stream"), nil, "Authorization", "Bearer "+b.token))
				c.take(at, user, made.text("id"))
				for _, s := range open {
					last := ""
					for block := s.block(); block != ""; block = s.block() {
						last = block
					}
					require.Equal(t, c.says, last)
				}
			}
		})
	}
}
