package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"

	"parley/actors/core/failure"
)

// Bounds of a key set.
const (
	maxKeys  = 100
	maxKeyID = 256
)

var errNoKeys = errors.New("no key set could be fetched")

// keySet holds the keys behind a URL. One goroutine, between Start (or the first token) and Stop, fetches them: at
// once, every Refresh, and when a token names an unknown key, but never more often than MinRefresh. While the URL does
// not answer, the last valid set is used for up to MaxStale.
type keySet struct {
	config  JWTConfig
	client  *http.Client
	logger  *slog.Logger
	current atomic.Pointer[keys]
	kick    chan struct{}   // capacity 1: a fetch is wanted
	ctx     context.Context //nolint:containedctx // lifetime of the fetching goroutine
	cancel  context.CancelFunc
	mu      struct {
		sync.Mutex
		round   chan struct{} // closed at the end of the current or next fetch
		pending bool          // a fetch is in progress or has been requested
		last    time.Time     // end of the last fetch
		running bool
	}
	done chan struct{} // closed when the goroutine has ended
}

// keys is one fetched set.
type keys struct {
	byID    map[string][]any
	all     []any
	fetched time.Time
}

func newKeySet(config JWTConfig, logger *slog.Logger, transport http.RoundTripper) (*keySet, error) {
	if err := parseServiceURL(config.JWKSURL); err != nil {
		return nil, err
	}
	if transport == nil {
		transport = newTransport(2)
	}
	s := &keySet{
		config: config, logger: logger, kick: make(chan struct{}, 1), done: make(chan struct{}),
		client: &http.Client{
			Transport: transport, Timeout: config.FetchTimeout,
			CheckRedirect: func(request *http.Request, via []*http.Request) error {
				if len(via) > 3 {
					return errors.New("too many redirects")
				}
				return checkServiceURL(request.URL)
			},
		},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.round = make(chan struct{})
	return s, nil
}

// Start starts the fetching. Otherwise the first token does.
func (s *keySet) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startLocked()
}

func (s *keySet) startLocked() {
	if s.mu.running || s.ctx.Err() != nil {
		return
	}
	s.mu.running, s.mu.pending = true, true
	go s.run()
}

// Stop ends the fetching and waits for it.
func (s *keySet) Stop() {
	s.cancel()
	s.mu.Lock()
	running := s.mu.running
	s.mu.Unlock()
	if running {
		<-s.done
	}
	s.client.CloseIdleConnections()
}

func (s *keySet) run() {
	defer close(s.done)
	failures := 0
	for {
		err := s.fetch()
		if s.ctx.Err() != nil {
			return
		}
		wait := s.config.Refresh
		if err != nil {
			failures++
			wait = min(wait, max(s.config.MinRefresh, time.Second<<min(failures, 6)))
			s.logger.Warn("fetch of key set failed", slog.Any("err", err), slog.Int("failures", failures))
		} else {
			failures = 0
		}
		s.endRound()
		// Spread out, so that the nodes of a cluster do not fetch at the same moment.
		timer := time.NewTimer(wait - time.Duration(rand.Int64N(int64(wait)/10+1)))
		select {
		case <-s.ctx.Done():
			timer.Stop()
			return
		case <-s.kick:
		case <-timer.C:
			s.beginRound()
		}
		timer.Stop()
	}
}

func (s *keySet) beginRound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.pending = true
	select {
	case <-s.kick: // served by the fetch that begins now
	default:
	}
}

func (s *keySet) endRound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.pending, s.mu.last = false, time.Now()
	close(s.mu.round)
	s.mu.round = make(chan struct{})
}

// find returns the keys that may have signed a token with this key id. For an unknown id it waits for a fetch, if
// MinRefresh permits one now.
func (s *keySet) find(ctx context.Context, keyID string) ([]any, error) {
	if found := s.lookup(keyID); len(found) > 0 {
		return found, nil
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	if found := s.lookup(keyID); len(found) > 0 {
		return found, nil
	}
	if !s.usable() {
		return nil, errNoKeys
	}
	return nil, refuse(failure.InvalidToken)
}

func (s *keySet) usable() bool {
	current := s.current.Load()
	return current != nil && time.Since(current.fetched) < s.config.MaxStale
}

func (s *keySet) lookup(keyID string) []any {
	if !s.usable() {
		return nil
	}
	current := s.current.Load()
	if keyID == "" {
		return current.all
	}
	return current.byID[keyID]
}

// refresh requests a fetch, unless the last one is too recent, and waits for its end.
func (s *keySet) refresh(ctx context.Context) error {
	s.mu.Lock()
	s.startLocked()
	round := s.mu.round
	if !s.mu.pending {
		if !s.mu.running || time.Since(s.mu.last) < s.config.MinRefresh {
			s.mu.Unlock()
			return nil
		}
		s.mu.pending = true
		s.kick <- struct{}{} // does not block: pending was false
	}
	s.mu.Unlock()
	select {
	case <-round:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return errNoKeys
	}
}

func (s *keySet) fetch() error {
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.config.JWKSURL, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }() // only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("key set URL answered %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, s.config.MaxKeySetBytes+1))
	if err != nil {
		return fmt.Errorf("read key set: %w", err)
	}
	if int64(len(body)) > s.config.MaxKeySetBytes {
		return fmt.Errorf("key set is larger than %d bytes", s.config.MaxKeySetBytes)
	}
	fetched, err := parseKeys(body, s.config.Algorithm)
	if err != nil {
		return err
	}
	s.current.Store(fetched)
	return nil
}

// parseKeys returns the public signature keys that fit the algorithm. It ignores all others, secrets above all, since
// they must never validate a token.
func parseKeys(body []byte, algorithm string) (*keys, error) {
	set, err := jwk.Parse(body, jwk.WithIgnoreParseError(true))
	if err != nil {
		return nil, errors.New("key set is malformed")
	}
	if set.Len() > maxKeys {
		return nil, fmt.Errorf("key set has %d keys, more than %d", set.Len(), maxKeys)
	}
	fetched := &keys{byID: map[string][]any{}, fetched: time.Now()}
	for i := range set.Len() {
		key, ok := set.Key(i)
		if !ok {
			continue
		}
		if use, ok := key.KeyUsage(); ok && use != "sig" {
			continue
		}
		if named, ok := key.Algorithm(); ok && named.String() != algorithm {
			continue
		}
		var raw any
		if err := jwk.Export(key, &raw); err != nil || Fits(algorithm, raw) != nil {
			continue
		}
		fetched.all = append(fetched.all, raw)
		if id, ok := key.KeyID(); ok && id != "" {
			fetched.byID[id] = append(fetched.byID[id], raw)
		}
	}
	if len(fetched.all) == 0 {
		return nil, fmt.Errorf("key set has no public key for %s", algorithm)
	}
	return fetched, nil
}
