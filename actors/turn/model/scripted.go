package model

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"parley/actors/provider"
	"parley/proto/agentpb"
)

// maxScriptTokens bounds the numbered words of a script.
const maxScriptTokens = 1_000_000

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

	failure   *scriptFailure // nil = it does not fail
	failAfter int            // after so many words
	failTimes int            // in so many attempts; 0 = in all

	inputWords int
	usage      *agentpb.Script_Usage
	words      int // of the whole text; only beside usage
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
	if step == nil && script.GetText() == "" && script.GetTokens() == 0 {
		result.calls = cannedCalls(request)
	}
	result.text = stepText(request, script, step)
	if step == nil && len(result.calls) > 0 {
		result.text = "One moment."
	}
	if result.usage != nil {
		result.words = countWords(result.text)
		if fixed := result.usage.GetOutputTokens(); fixed > 0 && result.cap > 0 {
			// The cap is in tokens, and the script says how many all its words are.
			result.cap = max(1, int(int64(result.cap)*int64(result.words)/fixed))
		}
	}
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
		if said := cannedAfterTools(request.Messages); said != "" {
			return said
		}
		if rest := cannedRest(request.Agent.GetName(), request.Messages); rest != "" {
			return rest
		}
		return cannedReply(request.Agent.GetName(), newestUserText(request.Messages))
	}
}

// stepFailure is the failure that a step asks for, in the words of the script.
func stepFailure(step *agentpb.Script_Step) *scriptFailure {
	code, message := step.GetErrorCode(), step.GetErrorMessage()
	if code == "" {
		return nil
	}
	if message == "" {
		message = "the script of this agent fails here"
	}
	result := &scriptFailure{failure: &Error{Code: code, Message: message, Retryable: true}}
	switch code {
	case CodeInvalidRequest, CodeAuthentication:
		result.failure.Retryable = false
	case CodeProviderTimeout:
	case CodeRateLimited, CodeOverloaded, CodeCut:
		result.again = true
	default: // server_error
		result.failure.Code, result.again = CodeProviderError, true
	}
	return result
}

// play waits, says the words, and then fails, asks for tools or just ends.
func (p *part) play(ctx context.Context, number int, limits limits, out *recorder) error {
	failing := p.failure != nil && (p.failTimes == 0 || number < p.failTimes)
	pace := pacer{start: time.Now()}
	if err := pace.wait(ctx, min(p.delay, limits.firstToken)); err != nil {
		return err
	}
	if p.delay >= limits.firstToken {
		return provider.ErrFirstToken
	}
	most := math.MaxInt
	if p.cap > 0 {
		most = p.cap
	}
	if failing {
		most = min(most, p.failAfter)
	}
	words, rest, err := p.say(ctx, &pace, limits.idle, most, out)
	switch {
	case err != nil:
		return err
	case failing && (rest == "" || words == p.failAfter):
		return p.failure
	case rest != "":
		p.end(out, words, StopLength)
		return nil
	}
	for i, wanted := range p.calls {
		if err := out.toolPiece(int64(i), wanted.ID, wanted.Name, wanted.Arguments); err != nil {
			return err
		}
	}
	p.end(out, words, StopEnd)
	return nil
}

// say says the words, not more than most, and returns how many it said and what is left. Words are due at fixed times after the start,
// so that a late one does not delay the next; words that are due already follow at once, each by itself.
func (p *part) say(ctx context.Context, pace *pacer, idle time.Duration, most int, out *recorder) (int, string, error) {
	rest, due := p.text, p.delay
	words := 0
	for ; rest != "" && words < most; words++ {
		if words > 0 {
			due += min(p.interval, idle)
			if err := pace.wait(ctx, due); err != nil {
				return words, rest, err
			}
			if p.interval >= idle {
				return words, rest, provider.ErrIdle
			}
		}
		end := nextPiece(rest)
		if err := out.Text(rest[:end]); err != nil {
			return words, rest, err
		}
		rest = rest[end:]
		out.usage = p.counted(words + 1)
	}
	return words, rest, nil
}

// end closes the answer.
func (p *part) end(out *recorder, words int, stop Stop) {
	out.setUsage(p.counted(words))
	out.finish(stop)
}

// counted is the usage after so many words: the script's own, or what was counted. Of a text that is not said to the
// end it is the same part of the script's output tokens, rounded up.
func (p *part) counted(words int) Usage {
	if p.usage == nil {
		return Usage{InputTokens: int64(p.inputWords), OutputTokens: int64(words), Known: true}
	}
	output := p.usage.GetOutputTokens()
	if words < p.words {
		all := int64(p.words)
		output = output/all*int64(words) + (output%all*int64(words)+all-1)/all
	}
	return Usage{
		InputTokens: p.usage.GetInputTokens(), OutputTokens: output,
		CachedInputTokens: p.usage.GetCachedInputTokens(), Known: true,
	}
}

// meter counts as the usage will.
func (s *scripted) meter(request *Request) Meter {
	return &wordMeter{model: s, request: request}
}

// wordMeter reads the script only when it is asked.
type wordMeter struct {
	model   *scripted
	request *Request
	words   int
	known   *part
}

func (m *wordMeter) part() *part {
	if m.known == nil {
		read, err := m.model.part(m.request)
		if err != nil {
			read = &part{} // the call will fail before it costs anything
		}
		m.known = read
	}
	return m.known
}

// Input implements Meter.
func (m *wordMeter) Input() int64 { return m.part().counted(0).InputTokens }

// Text implements Meter.
func (m *wordMeter) Text(piece string) { m.words += countWords(piece) }

// Unsaid costs nothing here.
func (m *wordMeter) Unsaid(string) {}

// Output implements Meter.
func (m *wordMeter) Output() int64 {
	if m.words == 0 {
		return 0
	}
	return m.part().counted(m.words).OutputTokens
}

// pacer waits for times after a start.
type pacer struct {
	start time.Time
	timer *time.Timer
}

// wait returns when due has passed since the start, at once when it has already, or with the cause when ctx ends before.
func (p *pacer) wait(ctx context.Context, due time.Duration) error {
	left := due - time.Since(p.start)
	if left <= 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	if p.timer == nil {
		p.timer = time.NewTimer(left)
	} else {
		p.timer.Reset(left)
	}
	select {
	case <-ctx.Done():
		p.timer.Stop()
		return context.Cause(ctx)
	case <-p.timer.C:
		return nil
	}
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

// nextPiece is how long the first piece of text is: blanks and the word after them. Blanks at the very end belong to the last
// word, so that the pieces together are the text.
func nextPiece(text string) int {
	end := 0
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
