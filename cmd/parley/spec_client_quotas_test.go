package main

import (
	"encoding/base64"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientQuotaOfFiles: how many files a tenant keeps, and how many bytes, by what is stored: also what was there before the policy,
// however many come at once; what is deleted, alone or with its session, makes room.
func TestClientQuotaOfFiles(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, _, _ := company(t, p)
	id := owner.done(t, "GET", "/auth/session", nil).text("userId")
	api := apiCaller{p, owner.done(t, "POST", "/users/"+id+"/tokens", object1{"label": "one"}).text("token")}
	api.done(t, "POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	api.done(t, "POST", "/models", scriptedModel("scripted"))
	agent := api.done(t, "POST", "/agents", object1{
		"name": "Reader", "config": object1{"modelKey": "scripted"}, "metadata": object1{"files": object1{"enabled": true, "maxFiles": 10}},
	}).text("agent", "key")
	newSession := func() string {
		return "/agents/sessions/" + api.done(t, "POST", "/agents/sessions", object1{"agent": agent}).text("id")
	}
	session := newSession()
	form := func(size int) answer {
		body := "--cut\r\nContent-Disposition: form-data; name=\"file\"; filename=\"c.txt\"\r\n\r\n" + strings.Repeat("a", size) + "\r\n--cut--\r\n"
		return api.post(t, session+"/files", body, "Content-Type", "multipart/form-data; boundary=cut")
	}
	upload := func(to string, size int) answer {
		return api.post(t, to+"/files?name=a.txt", strings.Repeat("a", size), "Content-Type", "text/plain")
	}
	require.Equal(t, 201, upload(session, 5).status)
	owner.done(t, "POST", "/quota/policies", object1{"domain": "file", "limits": object1{"quotas": object1{"maxFilesTotal": 3, "maxStorageBytes": 20}}})
	require.Equal(t, 201, form(5).status)
	third := decode(t, upload(session, 5).text).text("id")
	for _, a := range []answer{upload(session, 1), form(1)} {
		a.denied(429, "quota_reached", "files limit reached (3/3)")
	}
	api.done(t, "DELETE", session+"/files/"+third, nil)
	for _, a := range []answer{upload(session, 11), form(11)} {
		a.denied(429, "quota_reached", "storage limit reached (10/20)")
	}
	require.Equal(t, 201, form(10).status)
	inline := object1{"model": agent, "input": []any{object1{"role": "user", "content": []any{object1{
		"type": "input_file", "filename": "a.txt", "file_data": base64.StdEncoding.EncodeToString([]byte("a")),
	}}}}}
	api.post(t, "/agents/responses", inline).denied(429, "quota_reached", "files limit reached (3/3)")
	api.done(t, "DELETE", session, nil)
	api.done(t, "POST", "/agents/responses", inline)

	sessions := []string{newSession(), newSession(), newSession(), newSession(), newSession()}
	stored := make([]int, len(sessions))
	var uploads sync.WaitGroup
	for i, to := range sessions {
		uploads.Go(func() {
			for range 3 {
				if upload(to, 2).status == 201 {
					stored[i]++
				}
			}
		})
	}
	uploads.Wait()
	sum := 0
	for _, n := range stored {
		sum += n
	}
	require.Equal(t, 2, sum, "beside that of the response")
}
