package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// maxVerdict bounds the response of a callout.
const maxVerdict = 64 << 10

// Callout asks an HTTP service about every token. Anything but a clear yes refuses the request.
type Callout struct {
	config CalloutConfig
	client *http.Client
	places chan struct{} // one for each request in progress
	cache  *cache
}

// NewCallout returns a provider that asks a service. A nil transport means a new one.
func NewCallout(config CalloutConfig, transport http.RoundTripper) (*Callout, error) {
	if err := parseServiceURL(config.URL); err != nil {
		return nil, err
	}
	if config.MaxConcurrent <= 0 || config.Timeout <= 0 {
		return nil, errors.New("callout needs a timeout and a number of concurrent questions")
	}
	if transport == nil {
		transport = newTransport(config.MaxConcurrent)
	}
	return &Callout{
		config: config,
		client: &http.Client{
			Transport: transport,
			// A redirect would send the token to an address that was not configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		places: make(chan struct{}, config.MaxConcurrent),
		cache:  newCache(config.CacheEntries),
	}, nil
}

// Start does nothing: a callout has no background work.
func (c *Callout) Start() {}

// Stop closes idle connections.
func (c *Callout) Stop() { c.client.CloseIdleConnections() }

// Validate asks the service, unless an earlier yes is cached.
func (c *Callout) Validate(ctx context.Context, token string) (string, error) {
	key := digestOf(token)
	if userID, ok := c.cache.get(key, time.Now()); ok {
		return userID, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return "", errors.New("too many questions to the authentication service under way")
	}
	verdict, err := c.ask(ctx, token)
	if err != nil {
		return "", err
	}
	if !verdict.Valid {
		return "", shown(verdict.Error)
	}
	if c.config.CacheTTL > 0 {
		c.cache.put(key, verdict.UserID, time.Now().Add(c.config.CacheTTL))
	}
	return verdict.UserID, nil
}

type verdict struct {
	Valid  bool   `json:"valid"`
	UserID string `json:"userId"`
	Error  string `json:"error"`
}

func (c *Callout) ask(ctx context.Context, token string) (verdict, error) {
	question, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		return verdict{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.URL, bytes.NewReader(question))
	if err != nil {
		return verdict{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return verdict{}, fmt.Errorf("ask authentication service: %w", withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxVerdict+1))
	if err != nil {
		return verdict{}, fmt.Errorf("read answer of authentication service: %w", err)
	}
	var answer verdict
	switch response.StatusCode {
	case http.StatusOK:
		if len(body) > maxVerdict || json.Unmarshal(body, &answer) != nil {
			return verdict{}, errors.New("answer of authentication service is malformed")
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		// 401 and 403 mean no; the body's text is used if there is one.
		_ = json.Unmarshal(body, &answer)
		answer.Valid = false
	default:
		return verdict{}, fmt.Errorf("authentication service answered %d", response.StatusCode)
	}
	return answer, nil
}

// shown is a refusal in the service's words, as far as they are fit for a caller's eyes.
func shown(text string) error {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if text = strings.TrimSpace(text); text == "" || len(text) > 200 {
		return refuse(failure.InvalidToken)
	}
	return failure.Verbatim(failurepb.Code_AUTH_REQUIRED, text)
}
