import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumes a topic with parallel-consumer and prints its rate: "RATE records/s". */
public class Main {
    public static void main(String[] args) throws Exception {
        String brokers = args[0], topic = args[1], group = args[2];
        long records = Long.parseLong(args[3]);
        ProcessingOrder order = ProcessingOrder.valueOf(args[4]);
        int concurrency = Integer.parseInt(args[5]);
        long sleepMillis = Long.parseLong(args[6]);
        endWithParent();

        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", brokers, "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false"),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
        ParallelStreamProcessor<byte[], byte[]> processor = ParallelStreamProcessor.createEosStreamProcessor(
                ParallelConsumerOptions.<byte[], byte[]>builder()
                        .consumer(consumer).ordering(order).maxConcurrency(concurrency).build());
        processor.subscribe(List.of(topic));

        // The first fifth warms the compiler up and is not timed.
        long warm = records / 5;
        AtomicLong done = new AtomicLong();
        AtomicLong begin = new AtomicLong();
        AtomicLong end = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        processor.poll(context -> {
            if (sleepMillis > 0) {
                try {
                    Thread.sleep(sleepMillis);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new IllegalStateException(e);
                }
            }
            long n = done.incrementAndGet();
            if (n == warm) {
                begin.set(System.nanoTime());
            } else if (n == records) {
                end.set(System.nanoTime());
                all.countDown();
            }
        });
        all.await();
        System.out.println((records - warm) * 1e9 / (end.get() - begin.get()) + " records/s");
        processor.closeDrainFirst(); // commits, leaves the group
    }

    /** The parent holds the other end of standard input: when it dies, so do we. */
    private static void endWithParent() {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException e) {
                // the same as the end
            }
            Runtime.getRuntime().halt(1);
        });
        watch.setDaemon(true);
        watch.start();
    }
}
