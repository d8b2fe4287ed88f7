package main

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

// openConfig is a node without authentication whose agents end turns in every way they can end.
const openConfig = `
node: {name: spec-1}
log: {level: warn}
agents:
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
  - id: full
    name: Full Example
    description: Shows everything
    version: 2.1-beta
    instructions: never shown
    welcome: Hello there
    starters: [First question, Second question]
    metadata: {color: teal, nested: {deep: [1, 2.5, null, true]}, welcome: overridden, experience: overridden}
    capabilities:
      tool_approval: true
      ask_user: true
      client_tools: true
      attachments: {enabled: true, max_files: 4, max_file_size: 2MiB, allowed_mime_types: [image/png, text/*], accepts_images: true, retention_days: 30}
    experience:
      copy: false
      regenerate: true
      edit: true
      rename: false
      pin: false
      bulk_delete: false
      titles: false
      feedback: {enabled: true, comments: false, reasons: [wrong, other], max_comment_length: 50}
      export: {enabled: true, include_tools: true, formats: [json]}
    model: {provider: scripted, script: {text: "x"}}
  - id: words
    model: {provider: scripted, script: {tokens: 8, token_interval: 100ms}}
  - id: slow
    model: {provider: scripted, script: {tokens: 400, token_interval: 25ms}}
  - id: broken
    model: {provider: scripted, script: {steps: [{text: "one two three four", error_code: server_error, error_message: "the model broke", error_after_tokens: 2}]}}
  - id: mute
    model: {provider: scripted, script: {steps: [{error_code: invalid_request, error_message: "the model refused"}]}}
  - id: capped
    model: {provider: scripted, max_output_tokens: 3, script: {tokens: 10}}
  - id: looping
    max_turns: 2
    model: {provider: scripted, script: {steps: [{text: "let me see", tool_calls: [{name: lookup, arguments: {q: 1}}]}]}}
  - id: priced
    model: {provider: scripted, price: {input: 1, output: 2}, script: {text: "a b c", usage: {input_tokens: 1000, output_tokens: 500, cached_input_tokens: 100}}}
  - id: thrifty
    default_budget: {max_cost: 0.5, on_reach: stop}
    model: {provider: scripted, price: {input: 1, output: 2}, script: {text: "a b c"}}
`

func open(t *testing.T) *process {
	t.Helper()
	return shared.of(t, openConfig)
}

func agentRecord(over fields) shape {
	return object(fields{
		"id": nonEmpty, "name": nonEmpty, "description?": nonEmpty, "version?": nonEmpty,
		"capabilities": object(fields{
			"toolApproval": boolean, "askUser": boolean, "clientTools": boolean,
			"attachments": object(fields{
				"enabled": boolean, "acceptsImages": boolean, "maxFiles?": integer, "maxFileSize?": integer,
				"allowedMimeTypes?": listOf(nonEmpty), "retentionDays?": integer,
			}),
		}),
		"priced?": exactly(true), "metadata": anyObject,
	}.with(over))
}

// plainExperience is the switches of an agent that sets none.
func plainExperience() map[string]any {
	return map[string]any{
		"messageActions": map[string]any{"copy": true, "regenerate": true, "edit": true},
		"history":        map[string]any{"rename": true, "pin": true, "bulkDelete": true},
		"feedback": map[string]any{
			"enabled": true, "comments": true, "maxCommentLength": 1000,
			"reasons": []string{"inaccurate", "incomplete", "off_topic", "too_long", "unsafe", "other"},
		},
		"export": map[string]any{"enabled": true, "includeTools": false, "formats": []string{"md", "json", "html"}},
		"titles": false,
	}
}

func TestSpecAgents(t *testing.T) {
	t.Parallel()
	p := open(t)
	plain := map[string]any{"enableFileUpload": false, "acceptsImages": false, "experience": plainExperience()}

	t.Run("list_is_in_the_configured_order", func(t *testing.T) {
		for _, path := range []string{"/agents", "/agents?limit=1&x=%zz"} {
			agents := p.ask(t, "GET", path, nil).fits(200, object(fields{"agents": listOf(agentRecord(nil))})).at("agents").list()
			require.Equal(t, []string{"assistant", "quick", "full", "words", "slow", "broken", "mute", "capped", "looping", "priced", "thrifty"},
				texts(agents, "id"))
		}
	})
	t.Run("unset_fields_are_left_out", func(t *testing.T) {
		p.ask(t, "GET", "/agents/quick", nil).fits(200, object(fields{
			"id": exactly("quick"), "name": exactly("quick"),
			"capabilities": exactly(map[string]any{
				"toolApproval": false, "askUser": false, "clientTools": false,
				"attachments": map[string]any{"enabled": false, "acceptsImages": false},
			}),
			"metadata": exactly(plain),
		}))
	})
	t.Run("every_configured_field_is_shown", func(t *testing.T) {
		p.ask(t, "GET", "/agents/full", nil).fits(200, object(fields{
			"id": exactly("full"), "name": exactly("Full Example"), "description": exactly("Shows everything"), "version": exactly("2.1-beta"),
			"capabilities": exactly(map[string]any{
				"toolApproval": true, "askUser": true, "clientTools": true,
				"attachments": map[string]any{
					"enabled": true, "maxFiles": 4, "maxFileSize": 2 << 20, "allowedMimeTypes": []string{"image/png", "text/*"},
					"acceptsImages": true, "retentionDays": 30,
				},
			}),
			"metadata": exactly(fullMetadata()),
		}))
	})
	t.Run("an_agent_whose_answers_have_a_price_says_so", func(t *testing.T) {
		p.ask(t, "GET", "/agents/priced", nil).fits(200, agentRecord(fields{"priced": exactly(true)}))
	})
	t.Run("built_in_assistant_is_there", func(t *testing.T) {
		metadata := maps.Clone(plain)
		assistant := p.ask(t, "GET", "/agents/assistant", nil).fits(200, agentRecord(fields{
			"name": exactly("Assistant"), "description": nonEmpty, "version": nonEmpty,
		})).at("metadata")
		metadata["welcome"], metadata["starters"] = assistant.text("welcome"), assistant.at("starters").v
		require.NotEmpty(t, assistant.at("starters").list())
		require.NoError(t, exactly(metadata)(assistant.v))
	})
	t.Run("one_agent_is_the_record_of_the_list", func(t *testing.T) {
		for _, agent := range p.ask(t, "GET", "/agents", nil).fits(200, anyObject).at("agents").list() {
			require.Equal(t, agent.v, p.ask(t, "GET", "/agents/"+agent.text("id"), nil).fits(200, anyObject).v)
		}
	})
	t.Run("unknown_agent_is_404", func(t *testing.T) {
		for _, id := range []string{"nobody", "Quick", "quick%20", "%F0%9F%98%80", "..%2Fagents", "a.b"} {
			p.ask(t, "GET", "/agents/"+id, nil).refused(404, "NOT_FOUND")
		}
	})
}

func fullMetadata() map[string]any {
	return map[string]any{
		"color": "teal", "nested": map[string]any{"deep": []any{1, 2.5, nil, true}},
		"welcome": "Hello there", "starters": []string{"First question", "Second question"},
		"enableFileUpload": true, "acceptsImages": true, "maxFiles": 4, "maxFileSize": 2 << 20,
		"allowedFileTypes": []string{"image/png", "text/*"},
		"experience": map[string]any{
			"messageActions": map[string]any{"copy": false, "regenerate": true, "edit": true},
			"history":        map[string]any{"rename": false, "pin": false, "bulkDelete": false},
			"feedback":       map[string]any{"enabled": true, "comments": false, "maxCommentLength": 50, "reasons": []string{"wrong", "other"}},
			"export":         map[string]any{"enabled": true, "includeTools": true, "formats": []string{"json"}},
			"titles":         false,
		},
	}
}
