package bench

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTwinOfAnAgent: the agent with a shield is the same as the one without, also where that is the last of the file.
func TestTwinOfAnAgent(t *testing.T) {
	for _, id := range []string{"bench-stream", "bench-budget"} {
		settings := string(withTwin(agents, id))
		require.True(t, strings.HasPrefix(settings, string(agents)))
		_, plain, _ := strings.Cut(string(agents), "  - id: "+id+"\n")
		plain, _, _ = strings.Cut(plain, "\n\n")
		require.Equal(t, "\n\n  - id: "+id+"-guarded\n    shield: default\n"+strings.TrimSuffix(plain, "\n")+"\n", settings[len(agents):])
	}
}

// spender is a run of spending against a server that says what was spent.
func spender(t *testing.T, usedUSD float64, answer http.HandlerFunc) *spending {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /budgets/status", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"configured":true,"per_day":{"used_usd":%v}}`, usedUSD)
	})
	mux.HandleFunc("POST /chat/completions", answer)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	o := &Options{URLs: []string{server.URL}, Timeout: time.Second, AttemptTimeout: time.Second}
	c, err := newClient(o)
	require.NoError(t, err)
	t.Cleanup(c.close)
	r := &spending{nodeClient: nodeClient{c}, options: o, limit: 1_000_000}
	r.mu.random, r.mu.tally = rand.New(rand.NewPCG(1, 5)), newTally()
	return r
}

// TestRefusalsAreJudged: a call may be refused when what is left does not pay for it, and not before.
func TestRefusalsAreJudged(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"message":"no","code":"insufficient_quota"}}`)
	}
	for used, faults := range map[float64]int{0.00095: 0, 0.0005: 1} {
		r := spender(t, used, refuse)
		r.call(t.Context(), 0)
		require.Equal(t, 1, r.mu.refused)
		require.Len(t, r.mu.faults, faults)
	}
}

// TestOnlyWholeAnswersCount: an answer that breaks off is no acknowledgement, and the call is made again.
func TestOnlyWholeAnswersCount(t *testing.T) {
	calls := 0
	r := spender(t, 0, func(w http.ResponseWriter, _ *http.Request) {
		const usage = `data: {"choices":[],"usage":{"completion_tokens":3,"prompt_tokens":7,"total_tokens":10}}` + "\n\n"
		if calls++; calls == 1 {
			fmt.Fprint(w, usage)
			return
		}
		fmt.Fprint(w, usage+"data: [DONE]\n\n")
	})
	r.call(t.Context(), 0)
	require.Empty(t, r.mu.faults)
	require.Equal(t, []int{1, 1}, []int{r.mu.answered, r.mu.unknown})
	require.EqualValues(t, 7*inputNano+3*outputNano, r.mu.acknowledged)
}

// TestRecordingsArriveWhole: in a form, of which the model takes the checksum, and in base64.
func TestRecordingsArriveWhole(t *testing.T) {
	const sound = "of a few bytes"
	body, contentType := asForm(strings.NewReader(sound), "stt")
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	request.Header.Set("Content-Type", contentType)
	heard, err := hear(request)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(sound))), heard)

	body, _ = asBase64(strings.NewReader(sound), "stt")
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	var sent struct {
		Audio struct{ Data string }
		Model string
	}
	require.NoError(t, json.Unmarshal(text, &sent))
	require.Equal(t, []string{base64.StdEncoding.EncodeToString([]byte(sound)), "stt"}, []string{sent.Audio.Data, sent.Model})
}
