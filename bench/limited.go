package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// longestLimitWait bounds what a server that refuses may have a caller wait.
const longestLimitWait = 10 * time.Second

// limited is what a 429 says in its details.
type limited struct {
	wait    time.Duration // until the next attempt; 0 = not said
	setting string        // of the server, and its value where that is said; empty = none that is known
}

// limitOf reads the details of a refusal; other statuses than 429 have none.
func limitOf(status int, body []byte) limited {
	if status != http.StatusTooManyRequests {
		return limited{}
	}
	var said struct {
		Details struct {
			RetryAfter      float64 `json:"retryAfter"`
			RetryAfterSnake float64 `json:"retry_after"`
			MaxStreams      int     `json:"maxStreams"`
			MaxStreamsSnake int     `json:"max_streams"`
		} `json:"details"`
		Code string `json:"code"`
	}
	if json.Unmarshal(body, &said) != nil {
		return limited{}
	}
	l := limited{wait: min(time.Duration(cmp.Or(said.Details.RetryAfter, said.Details.RetryAfterSnake)*float64(time.Second)), longestLimitWait)}
	if most := cmp.Or(said.Details.MaxStreams, said.Details.MaxStreamsSnake); most > 0 {
		l.setting = fmt.Sprintf("limits.streams_per_caller = %d", most)
	} else if said.Code == "rate_limited" {
		l.setting = "limits.requests_per_second"
	}
	return l
}
