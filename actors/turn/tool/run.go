package tool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"parley/actors/core/letters"
	"parley/actors/deliver"
)

// maxErrorText bounds the text of an error, in bytes: a model needs only the gist.
const maxErrorText = 2 << 10

// Run runs a tool of kind Run. It returns when the tool has answered, failed or timed out, and soon after ctx ends,
// when it is unknown whether the tool did its work. The text of the error may be shown to the model.
func (t *Tool) Run(ctx context.Context, call Call) (Result, error) {
	if t.run == nil {
		return Result{}, fmt.Errorf("the tool %q is not run here", t.Name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("%w after %s", errTimeout, t.timeout))
	defer cancel()
	life := ctx
	ctx, answer := t.answers.Open(ctx)
	defer answer.Close()
	call.limit, call.idempotent = max(t.limit, maxErrorText), t.Policy.GetIdempotent()
	text, err := t.run(ctx, &call)
	if why := answer.Err(); err != nil && why != nil {
		err = failure("%s", why)
	}
	if err != nil {
		if !errors.As(err, new(*failed)) {
			t.logger.Warn("a tool failed", slog.String("tool", t.Name), slog.String("run", call.RunID),
				slog.String("err", withoutURLs(err)))
		}
		return Result{}, plainError(life, err)
	}
	return Result{Text: bounded(text, t.limit), Images: call.images}, nil
}

var anyURL = regexp.MustCompile(`https?://[^\s"]+`)

// withoutURLs returns the text of an error for the log, without URLs: these may contain keys, and libraries quote them.
func withoutURLs(err error) string {
	return anyURL.ReplaceAllString(deliver.WithoutURL(err).Error(), "(URL)")
}

var errTimeout = errors.New("the tool did not answer and was given up")

// failed is an error that a tool returned, or that was written for the model.
type failed struct{ text string }

func (f *failed) Error() string { return f.text }

func failure(format string, args ...any) error { return &failed{text: fmt.Sprintf(format, args...)} }

// plainError describes what went wrong without URLs and addresses: a URL may contain a secret, and an address reveals
// something about the network.
func plainError(ctx context.Context, err error) error {
	var answer *failed
	switch cause := context.Cause(ctx); {
	case errors.As(err, &answer):
		return &failed{text: clean(answer.text, maxErrorText)}
	case errors.Is(cause, errTimeout):
		return cause
	case cause != nil:
		return fmt.Errorf("the tool was stopped: %w", cause)
	case errors.Is(err, deliver.ErrForbiddenAddress):
		return errors.New("the tool's address is not allowed")
	default:
		return errors.New("the tool could not be reached, or broke off")
	}
}

// bounded cuts a result to its limit and appends a note.
func bounded(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	note := fmt.Sprintf("\n[the result was cut here; it is longer than %d bytes]", limit)
	return letters.Head(text, limit-len(note)) + note
}

// clean makes text suitable for an error.
func clean(text string, limit int) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
	return letters.Shorten(text, limit)
}
