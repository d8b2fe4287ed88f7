package failure

// Of requests for responses: what continues, and how it is carried out.
const (
	ModelFieldRequired     Reason = "model_field_required"
	FieldNotTaken          Reason = "field_not_taken"
	StreamNotTaken         Reason = "stream_not_taken"
	NeedsBackground        Reason = "needs_background"
	BadPreviousPrefix      Reason = "bad_previous_prefix"
	SessionsDiffer         Reason = "sessions_differ"
	OtherSessionNamed      Reason = "other_session_named"
	PreviousNotFound       Reason = "previous_not_found"
	FilesWithoutSession    Reason = "files_without_session"
	BadInputFileID         Reason = "bad_input_file_id"
	BackgroundWithSettings Reason = "background_with_settings"
	BackgroundWithItems    Reason = "background_with_items"
	BackgroundWithOutputs  Reason = "background_with_outputs"
)

// Of the input of a response.
const (
	InputRequired        Reason = "input_required"
	TooManyItems         Reason = "too_many_items"
	BadItem              Reason = "bad_item"
	ItemTypeNotSupported Reason = "item_type_not_supported"
	InputEndsEarly       Reason = "input_ends_early"
	IncompleteCall       Reason = "incomplete_call"
	IncompleteOutput     Reason = "incomplete_output"
	CallWithoutOutput    Reason = "call_without_output"
	OutputRepeated       Reason = "output_repeated"
	OutputNotAwaited     Reason = "output_not_awaited"
	OutputsNotLast       Reason = "outputs_not_last"
	FilesInOutputs       Reason = "files_in_outputs"
	BadItemRole          Reason = "bad_item_role"
	ItemNotFound         Reason = "item_not_found"
	TooManyReferences    Reason = "too_many_references"
	BadContent           Reason = "bad_content"
	PartTypeNotSupported Reason = "part_type_not_supported"
	FileURLNotFetched    Reason = "file_url_not_fetched"
	IncompleteFilePart   Reason = "incomplete_file_part"
	IncompleteImagePart  Reason = "incomplete_image_part"
	ImageNotInline       Reason = "image_not_inline"
)

// Of the settings of a response.
const (
	StoreOnly            Reason = "store_only"
	TruncationOnlyAuto   Reason = "truncation_only_auto"
	LogprobsNotSupported Reason = "logprobs_not_supported"
	VerbosityOnlyMedium  Reason = "verbosity_only_medium"
	OneTokenOrMore       Reason = "one_token_or_more"
	BadReasoningEffort   Reason = "bad_reasoning_effort"
	EffortNotSupported   Reason = "effort_not_supported"
	SettingsNotPassedOn  Reason = "settings_not_passed_on"
	BadTools             Reason = "bad_tools"
	TooManyTools         Reason = "too_many_tools"
	ToolTypeNotSupported Reason = "tool_type_not_supported"
	ToolRefused          Reason = "tool_refused"
	ToolChoiceOfNone     Reason = "tool_choice_of_none"
	BadToolChoice        Reason = "bad_tool_choice"
	BadFormat            Reason = "bad_format"
	FormatWithoutSchema  Reason = "format_without_schema"
	BadFormatType        Reason = "bad_format_type"
	FormatRefused        Reason = "format_refused"
)

// responseWords are the default words of these reasons; empty for any other.
func responseWords(r Reason) string {
	switch r {
	case ModelFieldRequired:
		return "{field} field is required and must contain the agent key"
	case FieldNotTaken:
		return "{name:q} is not supported here"
	case StreamNotTaken:
		return "{field}: responses of this route are never streamed; those of /responses can be"
	case NeedsBackground:
		return "{field} needs background: true"
	case BadPreviousPrefix:
		return "{field} must begin with {prefix}"
	case SessionsDiffer:
		return "session_id and previous_response_id name different sessions"
	case OtherSessionNamed:
		return "{field} names another session"
	case PreviousNotFound:
		return "previous_response_id does not match a valid conversation"
	case FilesWithoutSession:
		return "files belong to a session: store them in one, and continue it"
	case BadInputFileID:
		return "a file_id of the input is none"
	case BackgroundWithSettings:
		return "background cannot go with instructions, tools, text or other settings of the turn"
	case BackgroundWithItems:
		return "background cannot go with earlier items of the input"
	case BackgroundWithOutputs:
		return "background cannot go with outputs of function calls"
	case InputRequired:
		return "{field} field is required (string or array of message items)"
	case TooManyItems:
		return "{field} has more than {most} items"
	case BadItem:
		return "{field} is no item, or has a field of another type than it should"
	case ItemTypeNotSupported:
		return "items of type {type:q} are not supported"
	case InputEndsEarly:
		return "{field} must end with a message of the user, or with outputs of function calls"
	case IncompleteCall:
		return "a function_call has a call_id, a name and arguments"
	case IncompleteOutput:
		return "a function_call_output has a call_id and an output"
	case CallWithoutOutput:
		return "no output for the function call {call} is in the input"
	case OutputRepeated:
		return "there is another output of the function call {call}"
	case OutputNotAwaited:
		return "no function call {call} waits for an output: there is none in the input or the session, or it has its output"
	case OutputsNotLast:
		return "nothing can follow outputs that the session waits for: send it once the response is complete"
	case FilesInOutputs:
		return "files in outputs of function calls are not supported"
	case BadItemRole:
		return "the role of a message is user, assistant, system or developer"
	case ItemNotFound:
		return "there is no item {item}"
	case TooManyReferences:
		return "there are references to more than {most} messages: send them as items"
	case BadContent:
		return "the content of a message must be a string or an array of parts"
	case PartTypeNotSupported:
		return "parts of type {type:q} are not supported"
	case FileURLNotFetched:
		return "file_url is not fetched: send the file as file_data, or store it and name its file_id"
	case IncompleteFilePart:
		return "a file part needs a file_id, or file_data and a filename"
	case IncompleteImagePart:
		return "an image part needs an image_url or a file_id"
	case ImageNotInline:
		return "image_url must be a data URL of an image in base64: pictures of the web are not fetched"
	case StoreOnly:
		return "{field} must be true: every response is kept in its session, which can be deleted"
	case TruncationOnlyAuto:
		return "{field} must be auto: a history that is too long loses its oldest part"
	case LogprobsNotSupported:
		return "logprobs are not supported"
	case VerbosityOnlyMedium:
		return "{field} must be medium"
	case OneTokenOrMore:
		return "{field} is a whole number from 1 on"
	case BadReasoningEffort:
		return "{field} is none, minimal, low, medium, high or xhigh"
	case EffortNotSupported:
		return "{field} is not supported by the agent's model"
	case SettingsNotPassedOn:
		return "the agent runs elsewhere: instructions, tools, text and other settings of the turn cannot be given to it"
	case BadTools:
		return "{field} must be an array of {{type: function, name, description, parameters, strict}"
	case TooManyTools:
		return "there are more than {most} tools"
	case ToolTypeNotSupported:
		return "tools of type {type:q} are not supported: give the agent such a tool"
	case ToolRefused:
		return "{field}: {problem}"
	case ToolChoiceOfNone:
		return "{field} names none of the tools"
	case BadToolChoice:
		return "{field} must be auto, none, required or {{type: function, name}"
	case BadFormat:
		return "{field} must be an object with a type"
	case FormatWithoutSchema:
		return "{field} of type json_schema has a name and a schema"
	case FormatRefused:
		return "{field} cannot be used: {problem}"
	case BadFormatType:
		return "{field} must be text, json_object or json_schema"
	default:
		return ""
	}
}
