package javax.annotation;

/** Part of Java until version 11. */
public @interface Generated {
  String[] value();

  String date() default "";

  String comments() default "";
}
