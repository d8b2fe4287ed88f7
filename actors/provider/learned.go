package provider

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxLearned bounds what is remembered.
const maxLearned = 1000

// Learned remembers what agents or models have refused, so that it is waited for once: agents, by their URLs, the first version of their
// protocol. What it forgets, or what is no longer so, costs that one round trip again. The zero value knows of none; it is
// safe for concurrent use.
type Learned struct {
	mu    sync.Mutex
	known map[string]struct{}
}

// Has says whether one has shown it.
func (l *Learned) Has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.known[name]
	return found
}

// Note takes what one has just shown.
func (l *Learned) Note(name string, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, name)
	if !is {
		return
	}
	if l.known == nil {
		l.known = make(map[string]struct{})
	}
	for other := range l.known {
		if len(l.known) < maxLearned {
			break
		}
		delete(l.known, other) // any
	}
	l.known[name] = struct{}{}
}

// unknownWording is how a parameter is refused, whatever its value.
var unknownWording = regexp.MustCompile(`(?i)un(supported|known|recogni[sz]ed|expected)|not (supported|permitted|allowed|recogni[sz]ed)|does not support|extra[ _](inputs?|fields?|forbidden)|additional propert|` +
	`(not a valid|invalid|no such) (parameter|argument|field)|instead`)

// Refuses says whether an attempt failed because its provider does not take a parameter that was sent, whatever its value.
func Refuses(err error, name string) bool {
	failed, ok := errors.AsType[*Failure](err)
	if !ok || failed.InStream || failed.Status != http.StatusBadRequest && failed.Status != http.StatusUnprocessableEntity {
		return false
	}
	named := failed.Param == name || strings.Contains(failed.Message, name) && (failed.Param == "" || !IsName(failed.Param))
	return named && unknownWording.MatchString(failed.Kind+" "+failed.Code+" "+failed.Message)
}

// Parameters of Chat Completions that not every server takes, and without which an answer is the same.
const (
	StreamOptions       = "stream_options"
	MaxTokens           = "max_tokens"
	MaxCompletionTokens = "max_completion_tokens"
)

// CapName is under which of its two names the output cap goes out, "" = the server takes neither.
func CapName(newer bool, takes func(name string) bool) string {
	names := []string{MaxTokens, MaxCompletionTokens}
	if newer {
		slices.Reverse(names)
	}
	for _, name := range names {
		if takes(name) {
			return name
		}
	}
	return ""
}

// Refused is which of the parameters that were sent is to be left out, as an attempt failed because of it; "" = none. One of two names of
// the cap stays.
func Refused(err error, takes func(name string) bool, sent ...string) string {
	for _, name := range sent {
		spare := name == StreamOptions || takes(MaxTokens) && takes(MaxCompletionTokens)
		if takes(name) && spare && Refuses(err, name) {
			return name
		}
	}
	return ""
}
