package auth

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
)

func newCallout(t *testing.T, handler http.HandlerFunc, change func(*CalloutConfig)) *Callout {
	t.Helper()
	server := httptest.NewServer(handler)
	config := DefaultCalloutConfig()
	config.URL = server.URL
	if change != nil {
		change(&config)
	}
	c, err := NewCallout(config, nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Stop(); server.Close() })
	return c
}

func TestCalloutAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		status  int
		body    string
		user    string
		refusal string
		broken  bool
	}{
		"yes":              {200, `{"valid":true,"userId":"alice"}`, "alice", "", false},
		"yes_for_nobody":   {200, `{"valid":true}`, "", "", false},
		"no":               {200, `{"valid":false,"userId":"alice"}`, "", "Invalid token", false},
		"no_with_text":     {200, `{"valid":false,"error":"Token expired"}`, "", "Token expired", false},
		"no_with_tricks":   {200, `{"valid":false,"error":"a\r\nb"}`, "", "a  b", false},
		"no_with_novel":    {200, `{"valid":false,"error":"` + strings.Repeat("x", 500) + `"}`, "", "Invalid token", false},
		"empty_object":     {200, `{}`, "", "Invalid token", false},
		"status_no":        {401, `{"valid":true,"userId":"alice","error":"Gone"}`, "", "Gone", false},
		"status_forbidden": {403, `<html>`, "", "Invalid token", false},
		"not_json":         {200, `yes`, "", "", true},
		"wrong_types":      {200, `{"valid":"true","userId":"alice"}`, "", "", true},
		"too_long":         {200, `{"valid":true,"userId":"alice","x":"` + strings.Repeat("x", maxVerdict) + `"}`, "", "", true},
		"no_content":       {204, ``, "", "", true},
		"broken":           {500, `{"valid":true,"userId":"alice"}`, "", "", true},
		"redirect":         {302, ``, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCallout(t, func(w http.ResponseWriter, r *http.Request) {
				var question map[string]string
				if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&question) != nil || question["token"] != "t\"1" {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}, nil)
			user, err := c.Validate(t.Context(), `t"1`)
			var refusal *failure.Failure
			switch {
			case test.refusal != "":
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, test.refusal, refusal.DefaultText())
			case test.broken:
				require.Error(t, err)
				require.NotErrorAs(t, err, &refusal)
				require.NotContains(t, err.Error(), `t"1`)
			default:
				require.NoError(t, err)
				require.Equal(t, test.user, user)
			}
		})
	}
}

func TestCalloutTimesOut(t *testing.T) {
	release := make(chan struct{})
	c := newCallout(t, func(http.ResponseWriter, *http.Request) { <-release }, func(c *CalloutConfig) {
		c.Timeout, c.MaxConcurrent = 50*time.Millisecond, 1
	})
	defer close(release)
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			_, err := c.Validate(t.Context(), "t")
			errs <- err
		}()
	}
	for range cap(errs) {
		require.Error(t, <-errs)
	}
}

func TestCalloutRemembersOnlyWhenAsked(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		var asked atomic.Int64
		c := newCallout(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = io.WriteString(w, `{"valid":true,"userId":"alice"}`)
		}, func(c *CalloutConfig) { c.CacheTTL = ttl })
		for range 3 {
			_, err := c.Validate(t.Context(), "t")
			require.NoError(t, err)
		}
		want := map[time.Duration]int64{0: 3, time.Hour: 1}[ttl]
		require.Equal(t, want, asked.Load())
	}
}

func TestCalloutDown(t *testing.T) {
	c := newCallout(t, func(http.ResponseWriter, *http.Request) {}, func(c *CalloutConfig) { c.URL = "http://127.0.0.1:1/" })
	_, err := c.Validate(t.Context(), "t")
	require.Error(t, err)
	_, err = NewCallout(CalloutConfig{URL: "http://auth.example/"}, nil)
	require.Error(t, err)
}
