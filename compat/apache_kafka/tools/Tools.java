import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
// Exit is in the first up to 4.3, in the second from 4.4 on.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/**
 * Runs main classes of Apache Kafka's tools one after the other in this JVM. Each line of standard input is base64 words
 * with blanks between: what the tool shall read, its class, its arguments. Each is answered by a line of three words: the
 * exit code, and as base64 what it wrote on standard output and standard error. The end of the input ends it.
 */
public final class Tools {
    private static final long TIMEOUT_MS = Long.getLong("tools.timeout.ms", 90_000);
    private static volatile Command current;

    /** Tools keep System.out in fields of their own, so it is one stream that leads to the command that runs. */
    private static final class Leading extends OutputStream {
        private final boolean error;

        Leading(boolean error) {
            this.error = error;
        }

        @Override
        public void write(int one) {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int length) {
            Command command = current;
            if (command != null) command.write(error, bytes, from, length);
        }
    }

    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    private static final class Command {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();
        private final ByteArrayOutputStream error = new ByteArrayOutputStream();
        private final List<Runnable> hooks = new CopyOnWriteArrayList<>();
        private int code = -1;

        /** What is written after the exit, by those who catch its exception, was never written by the real tool. */
        synchronized void write(boolean toError, byte[] bytes, int from, int length) {
            if (code < 0) (toError ? error : out).write(bytes, from, length);
        }

        synchronized void exit(int with) {
            if (code < 0) code = with;
        }

        synchronized String answer() {
            Base64.Encoder encoder = Base64.getEncoder();
            return code + " " + encoder.encodeToString(out.toByteArray()) + " " + encoder.encodeToString(error.toByteArray()) + " .";
        }

        void run(String name, String[] arguments) {
            try {
                Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException wrapped) {
                if (!(wrapped.getCause() instanceof Exited)) {
                    System.err.println("Exception in thread \"main\" " + wrapped.getCause());
                    exit(1);
                }
            } catch (ReflectiveOperationException wrong) {
                System.err.println(wrong);
                exit(1);
            } finally {
                hooks.forEach(Runnable::run);
                exit(0);
            }
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = new PrintStream(System.out, true);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        System.setOut(new PrintStream(new Leading(false), true));
        System.setErr(new PrintStream(new Leading(true), true));
        Exit.Procedure exit = (code, message) -> {
            if (message != null && !message.isEmpty()) System.err.println(message);
            Command command = current;
            if (command != null) command.exit(code);
            throw new Exited();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> {
            if (current != null) current.hooks.add(hook);
        });
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = Arrays.stream(line.split(" ", -1))
                .map(word -> new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8)).toArray(String[]::new);
            System.setIn(new ByteArrayInputStream(words[0].getBytes(StandardCharsets.UTF_8)));
            Command command = new Command();
            current = command;
            Thread thread = new Thread(() -> command.run(words[1], Arrays.copyOfRange(words, 2, words.length)), "tool");
            thread.setDaemon(true);
            thread.start();
            thread.join(TIMEOUT_MS);
            if (thread.isAlive()) {
                System.err.println("does not end");
                command.exit(99);
                thread.interrupt();
            }
            current = null;
            answers.println(command.answer());
        }
        Runtime.getRuntime().halt(0);
    }
}
