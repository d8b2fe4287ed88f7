package failure

// words returns the default words of a reason, empty for one that is not known here. Wording explains the placeholders. Some groups
// of reasons have a file of their own, with their words.
//
// The release before reads the words: where two reasons say nearly the same, they keep what clients were told so far.
func (r Reason) words() string {
	switch r {
	case Literal:
		return "final words"
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
	case OpeningNotAllowed:
		return "this command neither makes a conversation nor adds files to it"
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
	case MessageQueueFull:
		return "the queue is full: it takes {most} messages and {bytes} bytes"
	case QueueBefore:
		return "queued messages come before"
	case QueueNotYet:
		return "messages cannot be queued before every node has this release"
	case BadOnBusy:
		return "{field} is reject, queue or interrupt"
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
	case AnswerNoText:
		return "the answer to {question:q} must be a text, a list of texts, or an object with values and freeText"
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
	case PushesFull:
		return "there are {most} push notification configs of the task, or {all} of the context, that are not told of its end yet"
	case TurnOver:
		return "the turn is over"
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
	case TaskFilesLost:
		return "The files of this task were not kept. Create it again."
	case TaskAgentGone:
		return "The agent of this task does not exist any more."
	case RunNotFound:
		return "Run not found"
	case RunFilesLost:
		return "the files of the run were not kept"
	case RunExists:
		return "the run exists"
	case IncompleteRun:
		return "a run needs an id, a conversation and an agent"
	case MessageFilesFull:
		return "a message takes at most {most} files"
	case QueueFull:
		return "too many background runs are queued in this project"
	case BadURL:
		return "{field} is not a valid URL"
	case URLScheme:
		return "{field} must use http or https"
	case URLNotPublic:
		return "{field} must resolve to a public address"
	case NoEventTypes:
		return "{field} must be a non-empty array of event types"
	case UnknownEventType:
		return "Unknown event type {type}"
	case BadEndpointStatus:
		return "{field} must be active or disabled"
	case EndpointNotFound:
		return "Webhook endpoint not found"
	case DeliveryNotFound:
		return "Webhook delivery not found"
	case EndpointsFull:
		return "A tenant may have at most {most} webhook endpoints"
	case EndpointDisabled:
		return "The webhook endpoint is disabled"
	case DeliveryPending:
		return "The delivery is still waiting"
	case DeliveryChanged:
		return "the delivery changed at the same time"
	case TestNotRecorded:
		return "The test delivery could not be recorded"
	case WebhooksNotYet:
		return "webhooks are available when every node of the cluster runs this release"
	case BadWebhookCommand:
		return "this is no command to a webhook endpoint"
	case FormerOutboxKeeper:
		return "a newer outbox worker has been heard"
	case BadDeliveriesRequest:
		return "limit must be 1 to {most}"
	case TooManySkipped:
		return "skip must be at most {most}"
	case IncompleteKey:
		return "a key needs an id, the SHA-256 of a request and a time to keep it"
	case IdempotencyKeyReused:
		return "the Idempotency-Key was used for another request"
	case IdempotencyKeyInUse:
		return "a request with this Idempotency-Key is under way, or was, and its answer is not kept; it is not carried out twice"
	case IdempotencyKeyOfAnother:
		return "the key is not this request's"
	case BadBudget:
		return "{field} must be {{{.maxCostUsd}: number, {.onReach}: pause or stop}"
	case BudgetOutOfRange:
		return "{field} must be above 0 and below {most}"
	case OnReachChoice:
		return "{field} must be pause or stop"
	case BadResolutionType:
		return "{field} must be tool_approval, user_question or client_tool"
	case BadDecision:
		return "{field} must be allow or deny"
	case ArgsNoObject:
		return "{field} must be an object"
	case AnswersNoObject:
		return "{field} must be an object: question to answer"
	case ResolutionWithoutOutput:
		return "{field} is required, or error"
	case AgentNotFound:
		return "agent not found"
	case FilesDisabled:
		return "the agent does not take files"
	case NoRoomForFiles:
		return "a {conversation} holds at most {maxFiles} files"
	case NamedFileTooLarge:
		return "file {name:q} is larger than {maxFileSize} bytes"
	case FileEmpty:
		return "file {name:q} is empty"
	case FileNotBase64:
		return "the content of file {name:q} is not base64"
	case FileTypeNotAccepted:
		return "files of type {type} are not accepted"
	case FileTypeTooLong:
		return "the type of a file is at most {most} bytes"
	case FileMetadataTooLarge:
		return "the metadata of a file is larger than {most} bytes"
	case FileNameMissing:
		return "the name of a file is required"
	case BadFileName:
		return "the name of a file must be plain text of at most {most} bytes"
	case ConversationWithoutOwner:
		return "the {conversation} has no owner right now"
	case SomeWithoutOwner:
		return "some conversations have no owner right now"
	case OwnerNotAvailable:
		return "The conversation's node is not available; try again"
	case ReadTooSlow:
		return "The read took too long; try again"
	case DataDamaged:
		return "Stored data is damaged"
	case UploadTooLarge:
		return "the file is larger than {most} bytes"
	case FileExists:
		return "the file is kept already"
	case FileNotKept:
		return "the file cannot be kept"
	case FileStorageBusy:
		return "storage is busy; try again"
	case TurnNotFound:
		return "no such turn"
	case NodeStarting:
		return "the node is starting"
	case NodeAlone:
		return "the node cannot be reached: this one is alone"
	case NodeNotKnown:
		return "node {node} is not known right now; try again"
	case NoSuchNode:
		return "there is no node {node:q}"
	case NoSuchNodeState:
		return "no state {state:q}"
	case NodeCallFailed:
		return "{problem}"
	case ShardWithoutOwner:
		return "shard {shard} has no owner right now; try again"
	case DirectoryNotAvailable:
		return "The directory is not available right now; try again"
	case RecordChanged:
		return "It was changed at the same time; try again"
	case RecordTooLarge:
		return "The record is too large"
	case RecordDiskFull:
		return "The disk is full: nothing was written"
	case RecordStoreFailed:
		return "The store has failed"
	case RecordStorageBusy:
		return "Storage is busy; try again"
	default:
		for _, words := range []func(Reason) string{
			fieldWords, callerWords, requestWords, recordWords, definitionWords, exchangeWords, responseWords, peopleWords, memberWords, licenceWords, shieldWords, guardrailWords, quotaWords, routingWords, traceWords,
		} {
			if text := words(r); text != "" {
				return text
			}
		}
		return ""
	}
}
