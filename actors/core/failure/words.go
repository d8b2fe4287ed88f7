package failure

// words returns the default words of a reason, empty for one that is not known here. Wording explains the placeholders.
//
// The release before reads the words: where two reasons say nearly the same, they keep what clients were told so far.
func (r Reason) words() string {
	switch r {
	case Literal:
		return "{text}"
	case Required:
		return "{field} is required"
	case NotUTF8:
		return "{field} is not valid UTF-8"
	case TooLong:
		return "{field} is longer than {maxBytes} bytes"
	case TooManyCharacters:
		return "{field} is longer than {most} characters"
	case TooLarge:
		return "{field} is larger than {maxBytes} bytes"
	case TooLargeOf:
		return "{field} is larger than {most} bytes"
	case ValuesTooLarge:
		return "{field} are larger than {most} bytes"
	case NotAnObject:
		return "{field} is not a JSON object"
	case ValuesNotAnObject:
		return "{field} are not a JSON object"
	case NotPositive:
		return "{field} must be above 0"
	case BadText:
		return "{what} is text of at most {most} bytes"
	case BadName:
		return "{what} is text of at most {most} bytes without control characters"
	case BadCallbackURL:
		return "{field} must be an absolute http or https URL of at most {most} bytes"
	case CallbackSecretTooLong:
		return "{field} is too long"
	case BadServerMetadata:
		return "server metadata is a JSON object of at most {most} bytes and keys that begin with {prefix}"
	case AccessDenied:
		return "Access denied"
	case CommandIDReused:
		return "the command id was used for another command"
	case UnknownCommand:
		return "this is no command of {entity}"
	case EntityNotFound:
		return "there is no such entity"
	case EntityDeleted:
		return "it was deleted"
	case EntityChanged:
		return "the entity changed at the same time"
	case OutcomeForgotten:
		return "not answered in time; whether it was carried out is not known any more"
	case OutcomeUnknown:
		return "outcome unknown: the command may have been applied, repeat it with the same id"
	case TooManyCommands:
		return "too many commands are waiting"
	case TooManyWaiters:
		return "too many callers wait for this"
	case TooManyFollowers:
		return "too many followers"
	case EventsMissed:
		return "events were missed: follow again"
	case CommandNotHandled:
		return "the command could not be handled"
	case ChangeNotEncoded:
		return "the change could not be encoded"
	case ChangeTooLarge:
		return "the change is too large to be stored"
	case StateUnreadable:
		return "the stored state is unreadable"
	case StateNotRead:
		return "the stored state could not be read in time"
	case StorageBusy:
		return "storage is busy: nothing was written"
	case DiskFull:
		return "the disk is full: nothing was written"
	case StoreFailed:
		return "the store has failed and refuses writes"
	case StoreBroken:
		return "the store has failed"
	case NodeStopping:
		return "the node is stopping"
	case ConversationNotFound:
		return "conversation not found"
	case ConversationDeleted:
		return "conversation was deleted"
	case FollowedConversationDeleted:
		return "the {conversation} was deleted"
	case ConversationChanged:
		return "the {conversation} changed meanwhile"
	case ConversationExists:
		return "the {conversation} exists"
	case ConversationNeedsID:
		return "a {conversation} needs an id"
	case ConversationHeld:
		return "a background run holds the {conversation}"
	case ConversationNotHeld:
		return "the background run does not hold the {conversation}"
	case SessionNotFound:
		return "Session not found"
	case PatchMissing:
		return "a patch is required"
	case RenameDisabled:
		return "the agent does not allow renaming"
	case PinDisabled:
		return "the agent does not allow pinning"
	case AgentMissing:
		return "Agent not found"
	case BadOnReach:
		return "{field} is pause or stop"
	case BudgetAlreadySpent:
		return "{field} must be above what was spent"
	case BudgetSetAndRemoved:
		return "a {field} cannot be set and removed at once"
	case BudgetUsedUp:
		return "the {conversation}'s budget is used up"
	case ModelWithoutPrice:
		return "the agent's model has no price, so no budget can be kept"
	case MessageNotFound:
		return "message not found"
	case RunNotActive:
		return "no such run is active"
	case TurnRunning:
		return "a turn is running"
	case NothingToContinue:
		return "no turn waits to be continued"
	case NotNewestAnswer:
		return "only the newest answer can be regenerated, or the newest user message if it has none"
	case RegenerateDisabled:
		return "the agent does not allow regenerating"
	case OnlyUserMessagesEdited:
		return "only a user message can be edited"
	case EditDisabled:
		return "the agent does not allow editing"
	case TurnSettingsNotUTF8:
		return "the settings of the turn are not valid UTF-8"
	case TurnSettingsTooLarge:
		return "instructions, tools and format are larger than {most} bytes together"
	case TooManyEarlierMessages:
		return "at most {messages} earlier messages and {rounds} rounds of tool calls come with a message"
	case EarlierMessagesTooLarge:
		return "what comes along with a message is larger than {most} bytes"
	case EarlierMessageTooLong:
		return "an earlier message is longer than {most} bytes"
	case BadEarlierRole:
		return "an earlier message is of the user or the assistant"
	case EmptyToolRound:
		return "a round of tool calls that came along has none"
	case ToolCallUnnamed:
		return "a tool call that came along has no id or no name"
	case ToolCallTooLarge:
		return "the arguments or the output of a tool call are larger than {most} bytes"
	case TurnLeaseLost:
		return "the run does not hold the turn lease"
	case StepOutOfOrder:
		return "the step does not follow the last one"
	case EmptyProgress:
		return "there is no progress in it"
	case ToolUseIncomplete:
		return "a tool use says of each call what it needs"
	case ToolCallsOpen:
		return "calls of the last tool use have no result yet"
	case BadNewCall:
		return "a new call needs to be run, or a person"
	case FeedbackDisabled:
		return "the agent takes no feedback"
	case OnlyAnswersRated:
		return "only an answer can be rated"
	case AnswerIncomplete:
		return "the answer is not complete yet"
	case BadRating:
		return "{field} is up, down or null"
	case ReasonsWithoutDown:
		return "{field} go with the rating down only"
	case UnknownFeedbackReason:
		return "{field} are of: {allowed}"
	case CommentWithoutRating:
		return "a {field} needs a rating"
	case CommentsDisabled:
		return "the agent takes no comments"
	case ActionPending:
		return "the {conversation} waits for a person to act"
	case ActionNotPending:
		return "the action is not pending"
	case ActionExpired:
		return "the action has expired"
	case OtherResolutionType:
		return "the action is resolved by a resolution of type {type}"
	case ArgsWithoutAllow:
		return "{field} go with the decision allow only"
	case ArgsOfCallThatRan:
		return "the arguments of a call that may have run cannot be changed"
	case ArgsAgainstSchema:
		return "{field}: {problem}"
	case BadAnswers:
		return "{field} are a JSON object: question to answer"
	case AnswerToNoQuestion:
		return "{field} name a question that was not asked: {question:q}"
	case QuestionUnanswered:
		return "the question {question:q} must be answered"
	case QuestionTakesOne:
		return "the question {question:q} takes one answer"
	case AnswerNoOption:
		return "the answer to {question:q} must be one of its options"
	case NoSuchOpenCall:
		return "no function call {call} waits for an output"
	case NoOutputs:
		return "there is no output of a function call in it"
	case OutputTooLarge:
		return "the {field} is larger than {most} bytes"
	case OutputNotJSON:
		return "the {field} is not a JSON value"
	case ErrorNotUTF8:
		return "the {field} is not valid UTF-8"
	case TooManyRememberedTools:
		return "no more than {most} tools can be remembered"
	case ToolNotRemembered:
		return "the tool is not remembered"
	case FileNotFound:
		return "file not found"
	case FilesNotTaken:
		return "the agent takes no files"
	case FileWithoutID:
		return "a file needs an id"
	case FileWithoutName:
		return "a file needs a {field}"
	case FileWithoutSize:
		return "a file has a {field}"
	case FileTooLarge:
		return "the file is larger than {maxFileSize} bytes"
	case FileTypeNotTaken:
		return "the agent takes no files of type {type}"
	case FilesFull:
		return "the {conversation} has {maxFiles} files already"
	case TooManyFileIDs:
		return "a message names at most {most} files"
	case TaskNotFound:
		return "task not found"
	case TaskExists:
		return "the task exists"
	case IncompleteTask:
		return "a task needs an id and a conversation"
	case TooManyComments:
		return "a task takes at most {most} comments"
	case TooMuchCommented:
		return "too much was commented while the task runs"
	case TaskFilesFull:
		return "a task takes at most {most} files"
	case TaskAgentGone:
		return "The agent of this task does not exist any more."
	case RunNotFound:
		return "Run not found"
	case RunExists:
		return "the run exists"
	case IncompleteRun:
		return "a run needs an id, a conversation and an agent"
	case MessageFilesFull:
		return "a message takes at most {most} files"
	case QueueFull:
		return "too many background runs are queued in this project"
	case IncompleteKey:
		return "a key needs an id, the SHA-256 of a request and a time to keep it"
	case IdempotencyKeyReused:
		return "the Idempotency-Key was used for another request"
	case IdempotencyKeyInUse:
		return "a request with this Idempotency-Key is under way, or was, and its answer is not kept; it is not carried out twice"
	case IdempotencyKeyOfAnother:
		return "the key is not this request's"
	}
	return ""
}
