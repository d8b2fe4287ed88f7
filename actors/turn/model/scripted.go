package model

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/proto/agentpb"
)

// maxScriptTokens bounds the numbered words of a script.
const maxScriptTokens = 1_000_000

// briefWait is a wait that is slept through and not interrupted. It costs about half of a timer that is, and a cancelled
// stream ends at most this much later.
const briefWait = 25 * time.Millisecond

// scripted is the built-in stand-in for a language model; the package comment says what it is and is not.
type scripted struct{ caller *caller }

// NeedsHistory is false: it looks at the newest user message only, if at any.
func (s *scripted) NeedsHistory() bool { return false }

// Generate plays the agent's script, or a canned reply.
func (s *scripted) Generate(ctx context.Context, request *Request, stream Stream) (*Answer, error) {
	model := request.Agent.GetModel()
	this := &call{provider: "scripted", request: request, limits: s.caller.limits(model)}
	part, refused := s.part(request)
	return s.caller.run(ctx, this, stream, func(ctx context.Context, number int, out *recorder) error {
		if refused != nil {
			return refused
		}
		if err := part.play(ctx, number, this.limits, out); err != nil {
			return err
		}
		return out.deliver()
	})
}

// part is what one model call of a script says and does.
type part struct {
	text     string
	calls    []ToolCall
	delay    time.Duration // before anything
	interval time.Duration // between two words
	cap      int           // words; 0 = no cap

	failure   *attemptFault // nil = it does not fail
	failAfter int           // after so many words
	failTimes int           // in so many attempts; 0 = in all

	inputWords int
	usage      *agentpb.Script_Usage
}

// part reads the script for this call. An agent without one gets a canned reply.
func (s *scripted) part(request *Request) (*part, error) {
	script := request.Agent.GetModel().GetScript()
	result := &part{
		delay:      milliseconds(script.GetFirstTokenDelayMs()),
		interval:   milliseconds(script.GetTokenIntervalMs()),
		cap:        int(maxOutput(request)),
		usage:      script.GetUsage(),
		inputWords: countWords(request.Agent.GetInstructions()),
	}
	for _, message := range request.Messages {
		result.inputWords += countWords(message.Content)
	}
	if script == nil {
		result.interval = time.Duration(float64(time.Second) / s.caller.config.WordsPerSecond)
	}
	if script.GetTokens() > maxScriptTokens {
		return nil, invalid("the script asks for more than %d tokens", maxScriptTokens)
	}
	var step *agentpb.Script_Step
	if steps := script.GetSteps(); len(steps) > 0 {
		step = steps[min(max(request.Step, 0), len(steps)-1)]
		result.delay += milliseconds(step.GetDelayMs())
	}
	result.failure = stepFailure(step)
	result.failAfter, result.failTimes = int(step.GetErrorAfterTokens()), int(step.GetFailTimes())
	for i, wanted := range step.GetToolCalls() {
		arguments := wanted.GetArguments()
		if arguments == "" {
			arguments = "{}"
		}
		if wanted.GetName() == "" || !isObject(arguments) {
			return nil, invalid("tool call %d of the script has no name, or arguments that are not a JSON object", i)
		}
		id := fmt.Sprintf("call_%s_%d_%d", request.RunID, request.Step, i)
		result.calls = append(result.calls, ToolCall{ID: id, Name: wanted.GetName(), Arguments: arguments})
	}
	result.text = stepText(request, script, step)
	return result, nil
}

// stepText chooses the words: the step's own, else the script's, else numbered ones, else a canned reply. A step that has
// something else to do than talk says nothing by itself.
func stepText(request *Request, script *agentpb.Script, step *agentpb.Script_Step) string {
	switch {
	case step.GetText() != "":
		return step.GetText()
	case step.GetErrorCode() != "" && step.GetErrorAfterTokens() > 0 && script.GetText() == "":
		return numberedWords(int(max(script.GetTokens(), min(step.GetErrorAfterTokens(), maxScriptTokens))))
	case len(step.GetToolCalls()) > 0:
		return ""
	case script.GetText() != "":
		return script.GetText()
	case script.GetTokens() > 0:
		return numberedWords(int(script.GetTokens()))
	default:
		return cannedReply(request.Agent.GetName(), newestUserText(request.Messages))
	}
}

// stepFailure is the failure that a step asks for, in the words of the script.
func stepFailure(step *agentpb.Script_Step) *attemptFault {
	code, message := step.GetErrorCode(), step.GetErrorMessage()
	if code == "" {
		return nil
	}
	if message == "" {
		message = "the script of this agent fails here"
	}
	switch code {
	case CodeInvalidRequest, CodeAuthentication:
		return fault(code, message, false, nil)
	case CodeProviderTimeout:
		return late(message, nil)
	case CodeRateLimited, CodeOverloaded, CodeCut:
		return fault(code, message, true, nil)
	default: // server_error
		return fault(CodeProviderError, message, true, nil)
	}
}

// play says the part. Words are due at fixed times after the start, so that a late one does not delay the next; words that are due already
// follow at once, each by itself.
func (p *part) play(ctx context.Context, number int, limits limits, out *recorder) error {
	failing := p.failure != nil && (p.failTimes == 0 || number < p.failTimes)
	pace := pacer{start: time.Now()}
	if p.delay >= limits.firstToken {
		if err := pace.wait(ctx, limits.firstToken); err != nil {
			return err
		}
		return errFirstToken
	}
	due := p.delay
	if err := pace.wait(ctx, due); err != nil {
		return err
	}
	words := 0
	for at := 0; at < len(p.text); words++ {
		if failing && words == p.failAfter {
			break
		}
		if p.cap > 0 && words == p.cap {
			p.end(out, words, StopLength)
			return nil
		}
		if words > 0 {
			due += min(p.interval, limits.idle)
			if err := pace.wait(ctx, due); err != nil {
				return err
			}
			if p.interval >= limits.idle {
				return errIdle
			}
		}
		next := nextPiece(p.text, at)
		if err := out.Text(p.text[at:next]); err != nil {
			return err
		}
		at = next
		out.usage = p.counted(words + 1)
	}
	if failing {
		failure := *p.failure.failure // each call its own: whether it may be repeated is noted in it
		return &attemptFault{failure: &failure, again: p.failure.again}
	}
	for i, wanted := range p.calls {
		if err := out.toolPiece(int64(i), wanted.ID, wanted.Name, wanted.Arguments); err != nil {
			return err
		}
	}
	p.end(out, words, StopEnd)
	return nil
}

// end closes the answer with the script's own usage, or the counted one.
func (p *part) end(out *recorder, words int, stop Stop) {
	usage := p.counted(words)
	if p.usage != nil {
		usage.InputTokens, usage.OutputTokens = p.usage.GetInputTokens(), p.usage.GetOutputTokens()
		usage.CachedInputTokens = p.usage.GetCachedInputTokens()
	}
	out.setUsage(usage)
	out.finish(stop)
}

func (p *part) counted(words int) Usage {
	return Usage{InputTokens: int64(p.inputWords), OutputTokens: int64(words), Known: true}
}

// pacer waits for times after a start.
type pacer struct {
	start time.Time
	timer *time.Timer
}

// wait returns when due has passed since the start, at once when it has already, or with the cause when ctx ends before.
func (p *pacer) wait(ctx context.Context, due time.Duration) error {
	left := due - time.Since(p.start)
	switch {
	case left <= 0:
	case left <= briefWait:
		time.Sleep(left)
	default:
		if p.timer == nil {
			p.timer = time.NewTimer(left)
		} else {
			p.timer.Reset(left)
		}
		select {
		case <-ctx.Done():
			p.timer.Stop()
		case <-p.timer.C:
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// numberedWords is "w1 w2 ... wN".
func numberedWords(n int) string {
	var text strings.Builder
	text.Grow(n * 5)
	var number [8]byte
	for i := 1; i <= n; i++ {
		if i > 1 {
			text.WriteByte(' ')
		}
		text.WriteByte('w')
		text.Write(strconv.AppendInt(number[:0], int64(i), 10))
	}
	return text.String()
}

// nextPiece is where the piece that starts at from ends: blanks and the word after them. Blanks at the very end belong to the
// last word, so that the pieces together are the text.
func nextPiece(text string, from int) int {
	end := from
	for end < len(text) && isBlank(text[end]) {
		end++
	}
	for end < len(text) && !isBlank(text[end]) {
		end++
	}
	rest := end
	for rest < len(text) && isBlank(text[rest]) {
		rest++
	}
	if rest == len(text) {
		return rest
	}
	return end
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func countWords(text string) int {
	words, inside := 0, false
	for i := range len(text) {
		blank := isBlank(text[i])
		if !blank && !inside {
			words++
		}
		inside = !blank
	}
	return words
}

func newestUserText(messages []Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == User {
			return messages[i].Content
		}
	}
	return ""
}
