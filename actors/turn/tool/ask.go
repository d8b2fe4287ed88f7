package tool

import (
	"cmp"
	"encoding/json"
	"errors"

	"parley/proto/agentpb"
)

// AskUser is the name of the built-in tool that asks a person.
const AskUser = "ask_user"

const askDescription = "Ask the user one or several questions and wait for the answers. Use it when you cannot go on " +
	"without something only the user knows or may decide. Offer options where there are obvious ones."

// askSchema is document 5, section 7.
const askSchema = `{"type":"object","properties":{"questions":{"type":"array","minItems":1,"maxItems":10,"items":{` +
	`"type":"object","properties":{` +
	`"question":{"type":"string","minLength":1,"maxLength":2000,"description":"The question, whole"},` +
	`"header":{"type":"string","maxLength":100,"description":"A few words that name it"},` +
	`"multiSelect":{"type":"boolean","description":"More than one option may be chosen"},` +
	`"placeholder":{"type":"string","maxLength":200},` +
	`"options":{"type":"array","maxItems":20,"items":{"type":"object","properties":{` +
	`"label":{"type":"string","minLength":1,"maxLength":200},"value":{"type":"string","maxLength":200},` +
	`"description":{"type":"string","maxLength":1000},"preview":{"type":"string","maxLength":4000}},"required":["label"]}},` +
	`"required":{"type":"boolean","description":"It must be answered; true unless said otherwise"}},` +
	`"required":["question"]}},` +
	`"allowFreeText":{"type":"boolean","description":"Answers other than the options are welcome; true unless said otherwise"}},` +
	`"required":["questions"]}`

func askUser(spec *agentpb.AskUser) *Tool {
	return &Tool{
		Name: AskUser, Description: cmp.Or(spec.GetDescription(), askDescription), Schema: []byte(askSchema), Kind: Ask,
		Policy: &agentpb.ToolPolicy{ActionTimeoutMs: spec.GetActionTimeoutMs()},
	}
}

// questions is what a person is shown: the arguments with all defaults filled in.
type questions struct {
	Questions     []question `json:"questions"`
	AllowFreeText bool       `json:"allowFreeText"`
}

type question struct {
	Question    string   `json:"question"`
	Header      string   `json:"header,omitempty"`
	MultiSelect bool     `json:"multiSelect"`
	Placeholder string   `json:"placeholder,omitempty"`
	Options     []option `json:"options,omitempty"`
	Required    *bool    `json:"required"`
}

type option struct {
	Label       string `json:"label"`
	Value       string `json:"value"`
	Description string `json:"description,omitempty"`
	Preview     string `json:"preview,omitempty"`
}

// questionDetails checks what the schema cannot: answers are keyed by the question's text, so it must be unique.
func questionDetails(args []byte) ([]byte, error) {
	asked := questions{AllowFreeText: true}
	if err := json.Unmarshal(args, &asked); err != nil {
		return nil, errors.New("the questions cannot be read")
	}
	seen := make(map[string]bool, len(asked.Questions))
	for index := range asked.Questions {
		one := &asked.Questions[index]
		if seen[one.Question] {
			return nil, errors.New("two questions are the same")
		}
		seen[one.Question] = true
		if one.Required == nil {
			required := true
			one.Required = &required
		}
		for at := range one.Options {
			one.Options[at].Value = cmp.Or(one.Options[at].Value, one.Options[at].Label)
		}
	}
	return json.Marshal(asked)
}
