package protocol

// Version is a version of the protocol.
type Version uint8

// Versions.
const (
	V03 Version = iota // 0.3: message/send
	V10                // 1.0: SendMessage
)

// Form names the version in what is stored.
func (v Version) Form() string {
	if v == V03 {
		return "a2a/0.3"
	}
	return "a2a/1.0"
}

// VersionOf is the reverse of Form.
func VersionOf(form string) (Version, bool) {
	for _, version := range []Version{V03, V10} {
		if version.Form() == form {
			return version, true
		}
	}
	return 0, false
}

// Operation is what a method does, in either version.
type Operation uint8

// Operations.
const (
	SendMessage Operation = iota + 1
	StreamMessage
	GetTask
	CancelTask
	SubscribeToTask
	SetPush
	GetPush
	ListPushes
	DeletePush
)

// Streams reports whether the operation is answered with an event stream.
func (o Operation) Streams() bool { return o == StreamMessage || o == SubscribeToTask }

// Method is what a method's name stands for.
type Method struct {
	Operation
	Version
}

// MethodOf returns the method of a name.
func MethodOf(name string) (Method, bool) {
	method, ok := methods[name]
	return method, ok
}

//nolint:gochecknoglobals // a constant table
var methods = map[string]Method{
	"message/send":                        {SendMessage, V03},
	"message/stream":                      {StreamMessage, V03},
	"tasks/get":                           {GetTask, V03},
	"tasks/cancel":                        {CancelTask, V03},
	"tasks/resubscribe":                   {SubscribeToTask, V03},
	"tasks/pushNotificationConfig/set":    {SetPush, V03},
	"tasks/pushNotificationConfig/get":    {GetPush, V03},
	"tasks/pushNotificationConfig/list":   {ListPushes, V03},
	"tasks/pushNotificationConfig/delete": {DeletePush, V03},
	"SendMessage":                         {SendMessage, V10},
	"SendStreamingMessage":                {StreamMessage, V10},
	"GetTask":                             {GetTask, V10},
	"CancelTask":                          {CancelTask, V10},
	"SubscribeToTask":                     {SubscribeToTask, V10},
	"CreateTaskPushNotificationConfig":    {SetPush, V10},
	"GetTaskPushNotificationConfig":       {GetPush, V10},
	"ListTaskPushNotificationConfigs":     {ListPushes, V10},
	"DeleteTaskPushNotificationConfig":    {DeletePush, V10},
}
