package conversation

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// asked is one question of a user_question, as its tool stored it (document 5, section 7).
type asked struct {
	Questions     []question `json:"questions"`
	AllowFreeText *bool      `json:"allowFreeText"`
}

type question struct {
	Question    string   `json:"question"`
	Header      string   `json:"header"`
	MultiSelect bool     `json:"multiSelect"`
	Options     []option `json:"options"`
	Required    *bool    `json:"required"`
}

type option struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// askedBy reads the questions of an action; none where its tool keeps them in another form.
func askedBy(action *conversationpb.PendingAction) asked {
	for _, raw := range [][]byte{action.GetDetails(), action.GetArgs()} {
		var a asked
		if json.Unmarshal(raw, &a) == nil && len(a.Questions) > 0 {
			return a
		}
	}
	return asked{}
}

// checkAnswers holds answers, keyed by a question's text or header, against the questions: each answer belongs to a question,
// each question that must be answered is, and where only the options are welcome the answer is one of them.
func checkAnswers(action *conversationpb.PendingAction, answers []byte) *machine.Failure {
	asked := askedBy(action)
	if len(asked.Questions) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(answers, &given) != nil {
		return invalidAnswers(failure.BadAnswers).In("answers")
	}
	for key := range given {
		if !slices.ContainsFunc(asked.Questions, func(q question) bool { return q.named(key) }) {
			return invalidAnswers(failure.AnswerToNoQuestion).In("answers").Param("question", brief(key))
		}
	}
	free := asked.AllowFreeText == nil || *asked.AllowFreeText
	for i := range asked.Questions {
		q := &asked.Questions[i]
		raw, ok := given[q.Question]
		if !ok {
			raw = given[q.Header]
		}
		said, ok := readAnswer(raw)
		if !ok {
			return invalidAnswers(failure.AnswerNoText).In("answers").Param("question", brief(q.Question))
		}
		if f := q.check(said, free); f != nil {
			return f
		}
	}
	return nil
}

func invalidAnswers(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_VALIDATION, reason)
}

// brief cuts a text from outside to the length that a failure quotes.
func brief(text string) string {
	const most = 80
	for at := range text {
		if most == utf8.RuneCountInString(text[:at]) {
			return text[:at]
		}
	}
	return text
}

// named says whether an answer's key refers to the question.
func (q *question) named(key string) bool { return key == q.Question || key == q.Header && key != "" }

func (q *question) check(a answer, free bool) *machine.Failure {
	switch {
	case a.empty() && (q.Required == nil || *q.Required):
		return invalidAnswers(failure.QuestionUnanswered).In("answers").Param("question", brief(q.Question))
	case len(q.Options) == 0:
		return nil
	case len(a.values) > 1 && !q.MultiSelect:
		return invalidAnswers(failure.QuestionTakesOne).In("answers").Param("question", brief(q.Question))
	case free:
		return nil
	}
	for _, value := range append(slices.Clone(a.values), a.free...) {
		if !slices.ContainsFunc(q.Options, func(o option) bool { return value == o.Value || value == o.Label }) {
			return invalidAnswers(failure.AnswerNoOption).In("answers").Param("question", brief(q.Question))
		}
	}
	return nil
}

// answer is what a person said to one question.
type answer struct{ values, free []string }

func (a answer) empty() bool { return len(a.values)+len(a.free) == 0 }

// readAnswer reads an answer in the forms in which clients send it: a text, a list of texts, {values, freeText}. False: it is in none of
// them.
func readAnswer(raw json.RawMessage) (answer, bool) {
	var text string
	var list []string
	var whole struct {
		Values   *[]string `json:"values"`
		FreeText *string   `json:"freeText"`
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return answer{}, true
	case json.Unmarshal(raw, &text) == nil:
		return answer{values: said(text)}, true
	case json.Unmarshal(raw, &list) == nil:
		return answer{values: said(list...)}, true
	case json.Unmarshal(raw, &whole) != nil || whole.Values == nil && whole.FreeText == nil:
		return answer{}, false
	}
	var a answer
	if whole.Values != nil {
		a.values = said(*whole.Values...)
	}
	if whole.FreeText != nil {
		a.free = said(*whole.FreeText)
	}
	return a, true
}

// said drops what is blank.
func said(texts ...string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.TrimSpace(text) == "" })
}
