package model

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What no call can have consumed is not believed, whatever the dialect, and the log says so.
func TestUsageThatCannotBe(t *testing.T) {
	for _, w := range wires() {
		for _, absurd := range []string{"9000000000000000000", "9e18", "1e300", "-5", "{}"} {
			whole := w.answer("ok")
			reply := strings.NewReplacer(
				`"prompt_tokens":11`, `"prompt_tokens":`+absurd, `"input_tokens":11`, `"input_tokens":`+absurd, `"input_tokens":4`, `"input_tokens":`+absurd,
			).Replace(whole)
			require.NotEqual(t, whole, reply)
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, reply) })
			var log bytes.Buffer
			answer, _, err := w.ask(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, w.request(server))
			require.NoError(t, err, w.name)
			require.Equal(t, "ok", answer.Text)
			require.Equal(t, Usage{Disbelieved: true}, answer.Usage, "%s %s", w.name, absurd)
			require.Contains(t, log.String(), "usage cannot be")
		}
	}
}
