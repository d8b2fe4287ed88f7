package replica

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// levelTrace is below debug, for raft's most verbose messages.
const levelTrace = slog.LevelDebug - 4

// raftLogger passes on raft's messages. Those about elections are debug messages; the driver itself logs the important
// events.
type raftLogger struct{ logger *slog.Logger }

var _ raft.Logger = (*raftLogger)(nil)

func (l *raftLogger) log(level slog.Level, text func() string) {
	if l.logger.Enabled(context.Background(), level) {
		l.logger.LogAttrs(context.Background(), level, "raft", slog.String("event", text()))
	}
}

// Debug implements raft.Logger.
func (l *raftLogger) Debug(v ...any) { l.log(levelTrace, func() string { return fmt.Sprint(v...) }) }

// Debugf implements raft.Logger.
func (l *raftLogger) Debugf(format string, v ...any) {
	l.log(levelTrace, func() string { return fmt.Sprintf(format, v...) })
}

// Info implements raft.Logger.
func (l *raftLogger) Info(v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprint(v...) })
}

// Infof implements raft.Logger.
func (l *raftLogger) Infof(format string, v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprintf(format, v...) })
}

// Warning implements raft.Logger.
func (l *raftLogger) Warning(v ...any) {
	l.log(slog.LevelWarn, func() string { return fmt.Sprint(v...) })
}

// Warningf implements raft.Logger.
func (l *raftLogger) Warningf(format string, v ...any) {
	l.log(slog.LevelWarn, func() string { return fmt.Sprintf(format, v...) })
}

// Error implements raft.Logger.
func (l *raftLogger) Error(v ...any) {
	l.log(slog.LevelError, func() string { return fmt.Sprint(v...) })
}

// Errorf implements raft.Logger.
func (l *raftLogger) Errorf(format string, v ...any) {
	l.log(slog.LevelError, func() string { return fmt.Sprintf(format, v...) })
}

// Fatal implements raft.Logger.
func (l *raftLogger) Fatal(v ...any) { l.Panic(v...) }

// Fatalf implements raft.Logger.
func (l *raftLogger) Fatalf(format string, v ...any) { l.Panicf(format, v...) }

// Panic implements raft.Logger: raft calls it when going on would break its promises.
func (l *raftLogger) Panic(v ...any) {
	panic(fmt.Sprint(v...)) //nolint:forbidigo // raft must not go on; Driver.guard makes it the failure of the store
}

// Panicf implements raft.Logger.
func (l *raftLogger) Panicf(format string, v ...any) {
	panic(fmt.Sprintf(format, v...)) //nolint:forbidigo // raft must not go on; Driver.guard makes it the failure of the store
}
