package deliver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// PosterConfig is what a Poster needs. Guard is required; the other zero values mean the defaults.
type PosterConfig struct {
	Guard *Guard
	// Timeout bounds one post, redirects and the reading of the answer included. Default 10 s.
	Timeout time.Duration
	// MaxAnswer bounds how much of an answer is read, in bytes; an answer that is longer fails the post of a caller that
	// reads it (Answer.Cut). Default 64 KiB.
	MaxAnswer int64
	// UserAgent names this server. Default "parley".
	UserAgent string
	// Carry has what signs and names a post (headers X-Service-...) go along with a redirect to another host, which else
	// hears none of them, and the post made again after 301 and 302, too: for receivers that may move, and nothing in such
	// headers but what the body is proved with.
	Carry bool
	// Now is the clock of the signatures. Default time.Now.
	Now func() time.Time
}

// Poster pushes JSON to addresses that were configured, or that a request named. Safe for concurrent use.
type Poster struct {
	config PosterConfig
	client *http.Client
}

// NewPoster makes a Poster.
func NewPoster(config PosterConfig) (*Poster, error) {
	if config.Guard == nil {
		return nil, errors.New("deliver: a poster needs a guard")
	}
	if config.Timeout < 0 || config.MaxAnswer < 0 {
		return nil, errors.New("deliver: no setting may be negative")
	}
	config.Timeout = cmp.Or(config.Timeout, 10*time.Second)
	config.MaxAnswer = cmp.Or(config.MaxAnswer, 64<<10)
	config.UserAgent = cmp.Or(config.UserAgent, "parley")
	if config.Now == nil {
		config.Now = time.Now
	}
	client := config.Guard.Client(config.Timeout)
	follow := client.CheckRedirect
	client.CheckRedirect = func(next *http.Request, before []*http.Request) error {
		if config.Carry {
			if err := repost(next, before[0]); err != nil {
				return err
			}
		}
		if next.Method != http.MethodPost { // 301, 302 and 303 would deliver nothing
			return fmt.Errorf("%w: it turns a POST into a %s", ErrRedirect, next.Method)
		}
		if err := follow(next, before); err != nil {
			return err
		}
		if config.Carry {
			carry(next, before[0])
		}
		return nil
	}
	return &Poster{config: config, client: client}, nil
}

// repost makes of a hop after 301 or 302 the post again that net/http turns into a GET (document 3, 14.1).
func repost(next, first *http.Request) error {
	if next.Method == http.MethodPost || next.Response == nil || next.Response.StatusCode == http.StatusSeeOther {
		return nil
	}
	body, err := first.GetBody()
	if err != nil {
		return err
	}
	next.Method, next.Body, next.GetBody, next.ContentLength = first.Method, body, first.GetBody, first.ContentLength
	next.Header.Set("Content-Type", first.Header.Get("Content-Type"))
	return nil
}

func carry(next, first *http.Request) {
	for name, values := range first.Header {
		if strings.HasPrefix(name, "X-Service-") {
			next.Header[name] = values
		}
	}
}

// Post is one push.
type Post struct {
	URL    string            // http or https
	Body   []byte            // JSON
	Secret string            // signs the body; empty = not signed
	Header map[string]string // besides; may replace User-Agent
}

// Answer is what the other side said.
type Answer struct {
	Status int
	Body   []byte
	Cut    bool // the body was longer than MaxAnswer
	// RetryAfter is how long the other side asked to be left alone; 0 = it did not.
	RetryAfter time.Duration
}

// OK says that the other side took it: a status of 2xx.
func (a *Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Post makes one attempt. The error says that there was no answer: ErrForbiddenAddress, ErrRedirect, a bad URL, a timeout,
// a broken connection; its text holds no URL and no header. A status other than 2xx is no error.
func (p *Poster) Post(ctx context.Context, post Post) (*Answer, error) {
	if err := CheckURL(post.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, post.URL, bytes.NewReader(post.Body))
	if err != nil {
		return nil, ErrBadURL
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", p.config.UserAgent)
	for name, value := range post.Header {
		request.Header.Set(name, value)
	}
	if post.Secret != "" {
		request.Header.Set(SignatureHeader, Sign(post.Secret, post.Body, p.config.Now()))
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("deliver: %w", WithoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, p.config.MaxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("deliver: %w", WithoutURL(err))
	}
	answer := &Answer{Status: response.StatusCode, Body: body, RetryAfter: p.retryAfter(response.Header)}
	if int64(len(body)) > p.config.MaxAnswer {
		answer.Body, answer.Cut = body[:p.config.MaxAnswer], true
	}
	return answer, nil
}

// retryAfter reads the header Retry-After: seconds, or a date.
func (p *Poster) retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	const most = 24 * 60 * 60
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(min(seconds, most)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(p.config.Now()), most*time.Second))
}

// ErrBadURL says that a text is no address that could be posted to.
var ErrBadURL = errors.New("deliver: not an http or https URL")

// CheckURL refuses what cannot be posted to: no absolute http or https URL, or one with a user in it. Where it leads is
// judged when it is connected to.
func CheckURL(text string) error {
	target, err := url.Parse(text)
	if err != nil || target.Hostname() == "" || (target.Scheme != "http" && target.Scheme != "https") || target.User != nil {
		return ErrBadURL
	}
	return nil
}

// WithoutURL takes the URL from an error of net/http: its query may be a secret.
func WithoutURL(err error) error {
	wrapped, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	if wrapped.Timeout() && !errors.Is(err, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return wrapped.Err
}
