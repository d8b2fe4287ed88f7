package quota

import (
	"context"
	"fmt"
	"time"

	"parley/actors/core/money"
	"parley/proto/allowancepb"
)

// Door is where every call that costs money, or that a rate bounds, is let in: calls of the gateway, the model calls of turns, and of
// audio in the domains Speech and Listening. It is safe for concurrent use.
type Door interface {
	// Guards says whether a tenant has policies at all. It costs nothing: what a Call needs is only worked out where it says so.
	Guards(tenantID string) bool
	// Enter lets a call in, waits until there is money for it, or refuses it with a *Refusal; any other error is that with which the
	// context ended. A nil Pass: nothing counts the call. The call's Cap binds, whatever the Pass.
	Enter(ctx context.Context, call *Call) (Pass, error)
}

// Pass is a call that was let in. It must be settled, once, also when the call was not made after all.
type Pass interface {
	// Held is what the call may cost, in nano-dollars, and whether that binds.
	Held() (nano int64, binds bool)
	// Settle says what the call did cost, and how many tokens it took. It returns when that is stored, or has been tried for long: then
	// it is tried further.
	Settle(cost, tokens int64)
}

// FileDoor is where files are let in that a request brings, and sessions that it reports. It is safe for concurrent use.
type FileDoor interface {
	Guards(tenantID string) bool // as that of Door
	// EnterFiles lets files in, or refuses them with a *Refusal, before they are stored. grows says that the last of them still comes: a pass
	// is to be asked for what comes (More). A nil pass: nothing counts them.
	EnterFiles(ctx context.Context, call *Call, grows bool) (FilePass, error)
	// EnterSessions lets as many new sessions in as a call reports (Call.Sessions), all or none, before they are stored. A nil pass: nothing
	// counts them.
	EnterSessions(ctx context.Context, call *Call) (FilePass, error)
}

// FilePass is files, or sessions, that were let in. It must be told, once, what became of them.
type FilePass interface {
	// More asks for what came of the file that comes, in bytes and in all, before that is stored. After a refusal Unkept is to be called.
	More(ctx context.Context, came int64) error
	// Kept says that they are stored, or may be, Unkept that they are not: then they do not count.
	Kept()
	Unkept()
}

// Refusal is why a call is not let in.
type Refusal struct {
	Message string
	// Spent says that a budget is used up, and not that calls come too fast or are too large.
	Spent bool
	// RetryAfter is when it may be tried again, 0 = not said.
	RetryAfter time.Duration
	// Full is what there is too much of, of which Count is there and Most may be: it is no matter of time.
	Full        string
	Count, Most int64
	// Broken says that it could not be found out.
	Broken bool
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// CheckRequest refuses a call for its size (document 3, section 4). A call of a language model that names no cap of its output gets the
// limit as its cap: else only those who name one were bounded.
func (f *Force) CheckRequest(call *Call) *Refusal {
	output := call.OutputTokens
	if call.Domain == LLM && output == 0 && !call.Free {
		output = 1
		call.Cap = f.outputLeft(call.InputTokens)
	}
	for _, limit := range []struct {
		name, words string
		amount      int64
	}{
		{MaxInputTokens, "Input tokens", call.InputTokens},
		{MaxOutputTokens, "Output tokens", output},
		{MaxTotalTokens, "Total tokens", call.InputTokens + output},
		{MaxFiles, "Files", call.Files},
		{MaxFileSize, "File size", call.Largest},
	} {
		if most, said := f.PerRequest[limit.name]; said && most >= 0 && limit.amount > most {
			return &Refusal{Message: fmt.Sprintf("%s (%d) exceeds limit (%d)", limit.words, limit.amount, most)}
		}
	}
	return nil
}

// outputLeft is the most that a call with such an input may say; 0 = nothing bounds it, or nothing is left.
func (f *Force) outputLeft(input int64) (left int64) {
	if most, said := f.PerRequest[MaxOutputTokens]; said && most >= 0 {
		left = most
	}
	if most, said := f.PerRequest[MaxTotalTokens]; said && most >= 0 {
		if most = max(most-input, 0); left == 0 || most < left {
			left = most
		}
	}
	return left
}

// Counted says whether calls are counted, and their money kept.
func (f *Force) Counted() bool { return len(f.Caps) > 0 }

// Binds says whether a limit of money is in force.
func (f *Force) Binds() bool {
	for _, c := range f.Caps {
		if !c.GetCounts() && c.GetMeasure() == allowancepb.Measure_COST {
			return true
		}
	}
	return false
}

// Reached is the refusal of a call that has come to a limit, of which so much is used.
func Reached(limit *allowancepb.Cap, amount, now int64) *Refusal {
	if limit.GetUnit() == allowancepb.Unit_FOREVER {
		full := &Refusal{Full: "files", Count: amount, Most: limit.GetMost()}
		switch limit.GetMeasure() {
		case allowancepb.Measure_STORAGE:
			full.Full = "storage"
		case allowancepb.Measure_SESSIONS:
			full.Full = "tracingSessions"
		default:
		}
		full.Message = fmt.Sprintf("%s limit reached (%d/%d)", full.Full, full.Count, full.Most)
		return full
	}
	if limit.GetUnit() == allowancepb.Unit_MOMENT {
		return &Refusal{Message: fmt.Sprintf("Concurrent requests (%d) exceeds limit (%d)", amount, limit.GetMost()), RetryAfter: time.Second}
	}
	const cent = money.PerUSD / 100
	window := windows()[max(int(limit.GetUnit()-allowancepb.Unit_SECOND), 0)]
	again := time.Duration(ends(limit.GetUnit(), now)-now) * time.Millisecond
	switch limit.GetMeasure() {
	case allowancepb.Measure_COST:
		return &Refusal{Message: fmt.Sprintf("Budget exceeded for %s (%d/%d cents)", window, amount/cent, limit.GetMost()/cent), Spent: true, RetryAfter: again}
	case allowancepb.Measure_TOKENS:
		return &Refusal{Message: fmt.Sprintf("Rate limit exceeded for tokens %s (%d/%d)", window, amount, limit.GetMost()), RetryAfter: again}
	case allowancepb.Measure_FILES:
		return &Refusal{Message: fmt.Sprintf("Rate limit exceeded for files %s (%d/%d)", window, amount, limit.GetMost()), RetryAfter: again}
	case allowancepb.Measure_STORAGE:
		return &Refusal{Message: fmt.Sprintf("Rate limit exceeded for storage %s (%d/%d)", window, amount, limit.GetMost()), RetryAfter: again}
	default:
		return &Refusal{Message: fmt.Sprintf("Rate limit exceeded for requests %s (%d/%d)", window, amount, limit.GetMost()), RetryAfter: again}
	}
}
