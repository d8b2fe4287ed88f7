package handler

import (
	"context"
	"errors"
	"io"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/httpedge/endpoint"
	"parley/httpedge/filing"
	"parley/proto/failurepb"
)

// Pieces of a file of which it is not known how large it is, in bytes: the first, and the largest. One is held while it is asked for.
const (
	firstPiece = 64 << 10
	mostPiece  = 1 << 20
)

// Admitted is files that the quota policies of the domain file let in. nil = nothing bounds them.
type Admitted struct {
	pass quota.FilePass
	over bool
}

// AdmitFiles asks the policies for the files that a request brings, which have been judged, before they are stored. part says that the
// request is counted by itself. Of several all lengths are known; where that of one is not, it is asked for while it comes, up to most bytes.
func (a *API) AdmitFiles(ctx context.Context, most int64, part bool, files ...*filing.Incoming) (*Admitted, error) {
	caller := endpoint.CallerFrom(ctx)
	if len(files) == 0 || a.FileDoor == nil || !a.FileDoor.Guards(caller.TenantID) {
		return nil, nil //nolint:nilnil // said above
	}
	call := &quota.Call{
		TenantID: caller.TenantID, ProjectID: caller.ProjectID, UserID: caller.UserID, TokenID: caller.TokenID(), Files: int64(len(files)), Part: part,
	}
	var unknown *filing.Incoming
	for _, file := range files {
		if file.Length < 0 {
			unknown = file
			continue
		}
		call.Bytes += file.Length
		call.Largest = max(call.Largest, file.Length)
	}
	pass, err := a.FileDoor.EnterFiles(ctx, call, unknown != nil)
	if err != nil || pass == nil {
		return nil, QuotaFailure(err)
	}
	if unknown != nil {
		unknown.Body = &coming{
			from: io.LimitReader(unknown.Body, most+1), // what is beyond is refused anyway
			more: func(came int64) error { return QuotaFailure(pass.More(ctx, came)) },
		}
	}
	return &Admitted{pass: pass}, nil
}

// Over says whether the files are stored, or may be. Only the first time counts.
func (f *Admitted) Over(kept bool) {
	if f == nil || f.over {
		return
	}
	f.over = true
	if kept {
		f.pass.Kept()
	} else {
		f.pass.Unkept()
	}
}

// coming is a file that is let in piece by piece as it comes.
type coming struct {
	from io.Reader
	more func(came int64) error
	came int64
	buf  []byte
	left []byte // of buf, let in and not read yet
	err  error  // after that
}

// Read implements io.Reader.
func (c *coming) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		c.fill()
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// fill takes the next piece and asks for it.
func (c *coming) fill() {
	if len(c.buf) < mostPiece {
		c.buf = make([]byte, max(2*len(c.buf), firstPiece))
	}
	size := 0
	for size < len(c.buf) && c.err == nil {
		var n int
		n, c.err = c.from.Read(c.buf[size:])
		size += n
	}
	if size == 0 || c.err != nil && !errors.Is(c.err, io.EOF) {
		return
	}
	c.came += int64(size)
	if refused := c.more(c.came); refused != nil {
		c.err = refused
		return
	}
	c.left = c.buf[:size]
}

// QuotaFailure is what a client is told that a quota policy does not let in; any other error, and nil, as it is.
func QuotaFailure(err error) error {
	refused, is := errors.AsType[*quota.Refusal](err)
	if !is {
		return err
	}
	if refused.Full != "" {
		return failure.New(failurepb.Code_QUOTA_REACHED, failure.RecordLimitReached).
			Param("records", refused.Full).Param("count", refused.Count).Param("most", refused.Most)
	}
	told := failure.New(failurepb.Code_RATE_LIMITED, failure.QuotaRefused).Param("problem", refused.Message)
	if refused.RetryAfter > 0 || refused.Broken {
		told = told.With("retryAfter", int(max(refused.RetryAfter, time.Second)/time.Second))
	}
	return told
}
