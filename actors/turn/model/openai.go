package model

import "encoding/json"

const jsonObject = "json_object"

// formatOf is a form of the answer with a schema, as both OpenAI-compatible services describe it.
func formatOf(format *Format) members {
	wanted := members{"name": format.Name}
	if len(format.Schema) > 0 {
		wanted["schema"] = json.RawMessage(format.Schema)
	}
	return wanted.with("description", format.Description).flag("strict", format.Strict)
}

// toolSettings are what the caller of the turn wants of tools. They are refused where there are none. one names a function to call.
func toolSettings(settings *Settings, body members, one func(name string) any) {
	body.flag("parallel_tool_calls", settings.Parallel)
	switch choice := settings.Choice; {
	case choice == nil:
	case choice.Mode == ChooseFunction:
		body["tool_choice"] = one(choice.Name)
	default:
		body["tool_choice"] = choice.Mode
	}
}
